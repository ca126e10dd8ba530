// Tests traces with a very large number of one kind of object. The viewer must open them in nearly
// linear time, and draw each frame within one second of this thread's CPU time. With these counts,
// a quadratic algorithm would take minutes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "tests/viz/headless.h"

using namespace lockstep;

namespace {

template <class Line>
std::string lines(int count, Line line) {
  std::string text = "[\n";
  for (int i = 0; i < count; ++i) text += line(i) + ",\n";
  return text;
}

std::string span(int rank, int lane, std::int64_t start, std::int64_t duration, int step) {
  return fmt::format(
      R"({{"ph":"X","name":"PP:0F0","cat":"forward","pid":{},"tid":{},"ts":{},"dur":{},"args":{{"step":{},"stage":0,"microbatch":0}}}})",
      rank, lane, start, duration, step);
}

void check_opens(const std::string& trace) {
  Headless viewer;
  CHECK(viewer.open(trace));
  CAPTURE(viewer.open_seconds);
  CHECK(viewer.open_seconds < 5);
  CHECK(viewer.longest_frame < 1);
}

}  // namespace

TEST_CASE("100,000 spans that overlap") {
  static constexpr int n = 100'000;
  SUBCASE("from the outermost") {
    check_opens(lines(n, [](int i) { return span(0, 0, i, 2 * (n - i), 0); }));
  }
  SUBCASE("from the innermost") {
    check_opens(lines(n, [](int i) { return span(0, 0, n - i, 2 * i, 0); }));
  }
  SUBCASE("each ends later than the one before") {
    check_opens(lines(n, [](int i) { return span(0, 1, i, n, 0); }));
  }
  SUBCASE("with messages") {
    check_opens(lines(n, [](int i) {
      return i % 2 == 0 ? span(0, 1, i, n, 0)
                        : fmt::format(R"({{"ph":"{}","id":{},"pid":0,"tid":1,"ts":{}}})",
                                      i % 4 == 1 ? "s" : "f", i / 4, i % 4 == 1 ? i : i - 3 + n);
    }));
  }
  SUBCASE("kernels") {
    check_opens(lines(n, [](int i) {
      return fmt::format(
          R"({{"ph":"X","name":"k","cat":"kernel","pid":0,"tid":0,"ts":{},"dur":{}}})", i, n);
    }));
  }
}

TEST_CASE("30,000 lanes") {
  SUBCASE("with names of their own") {
    check_opens(lines(30'000, [](int i) { return span(0, 30'000 - i, i, 5, 0); }));
  }
  SUBCASE("with one name, in one strip") {
    check_opens(lines(60'000, [](int i) {
      return i % 2 == 0 ? span(0, 1 + i / 2, i, 5000, 0)
                        : fmt::format(R"({{"ph":"M","name":"thread_name","pid":0,"tid":{},)"
                                      R"("args":{{"name":"send"}}}})",
                                      1 + i / 2);
    }));
  }
}

TEST_CASE("100,000 ranks") {
  check_opens(lines(100'000, [](int i) { return span(100'000 - i, 0, i % 10, 5, 0); }));
}

TEST_CASE("200,000 steps, the last first") {
  SUBCASE("one after the other") {
    check_opens(lines(200'000, [](int i) { return span(0, 0, 200'000 - i, 1, 200'000 - i); }));
  }
  SUBCASE("all at the same time") {
    check_opens(lines(200'000, [](int i) { return span(0, i % 3, 0, 200'000, 200'000 - i); }));
  }
}

TEST_CASE("100,000 announcements, and then their spans") {
  check_opens(lines(200'000, [](int i) {
    return i < 100'000
               ? fmt::format(R"({{"ph":"i","name":"open","cat":"forward","pid":0,"tid":0,"ts":900,)"
                             R"("args":{{"name":"PP:0F0","start":{}}}}})",
                             i)
               : span(0, 0, i - 100'000, 1, 0);
  }));
}

TEST_CASE("100,000 predictions, the last first, and 100,000 ends of one message") {
  check_opens(lines(300'000, [](int i) {
    const char* phase = i < 200'000 ? "s" : "f";
    return i < 100'000
               ? fmt::format(R"({{"ph":"M","name":"predicted","args":{{"first_step":{}}}}})",
                             100'000 - i)
           : i == 100'000
               ? span(0, 0, 0, 5, 0)
               : fmt::format(R"({{"ph":"{}","id":5,"pid":0,"tid":0,"ts":{}}})", phase, i);
  }));
}

TEST_CASE("300,000 samples of memory and losses") {
  check_opens(lines(300'000, [](int i) {
    return i == 0 ? span(0, 0, 0, 300'000, 0)
           : i % 2 == 0
               ? fmt::format(R"({{"ph":"C","name":"loss","pid":0,"ts":{},"args":{{"loss":5}}}})", i)
               : fmt::format(R"({{"ph":"C","name":"memory","pid":0,"ts":{},)"
                             R"("args":{{"parameters":{}}}}})",
                             300'000 - i, i);
  }));
}

TEST_CASE("times at which doubles are coarse, and a step of two million microbatches") {
  check_opens(span(0, 0, 1'000'000'000'000, 0, 0));
  Headless viewer;
  CHECK(viewer.open(
      R"({"ph":"X","name":"PP:0F0","cat":"forward","pid":0,"tid":0,"ts":0,"dur":5,"args":{"step":0,"stage":0,"microbatch":2000000}},)"
      "\n"
      R"({"ph":"X","name":"PP:1F0","cat":"forward","pid":0,"tid":0,"ts":5,"dur":5,"args":{"step":0,"stage":1,"microbatch":0}},)"
      "\n"
      R"({"ph":"X","name":"step","cat":"step","pid":0,"tid":0,"ts":0,"dur":10,"args":{"step":0}},)"
      "\n"));
  CHECK(viewer.longest_frame < 1);
}
