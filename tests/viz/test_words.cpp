#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "viz/data/step/words.h"

using namespace lockstep;
using namespace lockstep::viz;

TEST_CASE("times and sizes in the unit that suits them") {
  CHECK(duration_words(3.25e9) == "3.25 ms");
  CHECK(duration_words(1.5e12) == "1.50 s");
  CHECK(duration_words(12e6) == "12.0 µs");
  CHECK(duration_words(300) == "300 ps");
  CHECK(duration_words(0) == "0 s");
  CHECK(axis_words(12.5e9, 0.5e9) == "12.5 ms");
  CHECK(axis_words(2e12, 1e12) == "2 s");
  CHECK(bytes_words(16384) == "16.4 kB");
  CHECK(bytes_words(100) == "100 B");
}

TEST_CASE("exposed communication is broken down, without zero parts") {
  const Exposed sum{.transfer = 8 * ms, .latency = 2 * ms};
  CHECK(exposed_words(sum, 4) == "transfer 2.00 ms, latency 0.50 ms");
  CHECK(exposed_words({.late_peer = 3 * ms}, 1) == "late peer 3.00 ms");
  CHECK(exposed_words({}, 2).empty());
}

TEST_CASE("numbers have three significant digits, and the unit that this leaves them") {
  CHECK(duration_words(999.4e6) == "999 µs");
  CHECK(duration_words(999.6e6) == "1.00 ms");
  CHECK(duration_words(9.996e9) == "10.0 ms");
  CHECK(duration_words(99.96e9) == "100 ms");
  CHECK(duration_words(-2.5e9) == "-2.50 ms");
  CHECK(bytes_words(999) == "999 B");
  CHECK(bytes_words(1000) == "1.00 kB");
  CHECK(bytes_words(999'600) == "1.00 MB");
  CHECK(bytes_words(80e9) == "80.0 GB");
  CHECK(bytes_words(1.05e12) == "1.05 TB");
  CHECK(percent_words(0.345) == "34.5 %");
  CHECK(percent_words(0.9996) == "100 %");
  CHECK(percent_words(1.4512) == "145 %");
  CHECK(ratio_words(4) == "4");
  CHECK(ratio_words(2.128) == "2.13");
  CHECK(ratio_words(14.32) == "14.3");
  CHECK(ratio_words(0.04321) == "0.0432");
  // Random numbers: never more than three digits, and never a number that would suit another unit
  // better.
  std::uint64_t state = 7;
  for (int i = 0; i < 10'000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double number =
        std::pow(10, 3 + 11 * static_cast<double>(state >> 11) / 9007199254740992);
    for (const std::string& words : {duration_words(number), bytes_words(number)}) {
      CAPTURE(words);
      const std::string digits = words.substr(0, words.find(' '));
      CHECK(std::ranges::count_if(digits, [](char c) { return c >= '0' && c <= '9'; }) == 3);
      CHECK(std::stod(digits) >= 1);
    }
  }
}

TEST_CASE("the numbers of a sentence share a unit and their decimal places") {
  const Scale scale = Scale::durations(1.18e9);
  CHECK(scale(1.18e9) == "1.18 ms");
  CHECK(scale(220e6) == "0.22 ms");
  CHECK(scale(0) == "0 ms");
  CHECK(scale(3e6) == "<0.01 ms");
  CHECK(Scale::bytes(2.5e9)(700e6) == "0.70 GB");
  CHECK(Scale::bytes(700)(20) == "20 B");
}
