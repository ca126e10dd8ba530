#include <doctest/doctest.h>

#include "viz/data/words.h"

using namespace lockstep;
using namespace lockstep::viz;

TEST_CASE("times and sizes in the unit that suits them") {
  CHECK(duration_words(3.25e9) == "3.25 ms");
  CHECK(duration_words(1.5e12) == "1.50 s");
  CHECK(duration_words(12e6) == "12.00 µs");
  CHECK(duration_words(300) == "300 ps");
  CHECK(duration_words(0) == "0 s");
  CHECK(axis_words(12.5e9, 0.5e9) == "12.5 ms");
  CHECK(axis_words(2e12, 1e12) == "2 s");
  CHECK(bytes_words(16384) == "16.4 kB");
  CHECK(bytes_words(100) == "100 B");
}

TEST_CASE("exposed communication is broken down, without zero parts") {
  const Exposed sum{.transfer = 8 * ms, .latency = 2 * ms};
  CHECK(exposed_words(sum, 4) == "transfer 2.00 ms, latency 500.0 µs");
  CHECK(exposed_words({.late_peer = 3 * ms}, 1) == "late peer 3.00 ms");
  CHECK(exposed_words({}, 2).empty());
}
