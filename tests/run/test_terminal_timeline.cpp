#include <doctest/doctest.h>

#include <algorithm>
#include <regex>
#include <string>

#include "tests/run/timelines.h"
#include "viz/read/report/terminal_timeline.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Writes a step of GPipe with 2 stages and 3 microbatches. A forward takes 1, a backward takes 2,
/// and messages take no time.
void gpipe_step(HandWritten& written, int begin = 0, int step = 0) {
  for (int m = 0; m < 3; ++m) {
    written.forward(0, m, begin + m, begin + m + 1, step);
    written.forward(1, m, begin + m + 1, begin + m + 2, step);
    written.backward(1, m, begin + 4 + 2 * m, begin + 6 + 2 * m, step);
    written.backward(0, m, begin + 6 + 2 * m, begin + 8 + 2 * m, step);
  }
}

std::string without_colour(const std::string& text) {
  return std::regex_replace(text, std::regex{"\033\\[[0-9;]*m"}, "");
}

}  // namespace

TEST_CASE("a step is drawn to scale, idle time as dots") {
  HandWritten written;
  gpipe_step(written);
  CHECK(draw_timeline(written.done(), 0, 34, false) ==
        "rank 0   0-1-2-......0===1===2===\n"
        "rank 1   ..0-1-2-0===1===2===....\n");
  CHECK(draw_timeline(written.done(), 0, 46, false) ==
        "rank 0   0--1--2--.........0=====1=====2=====\n"
        "rank 1   ...0--1--2--0=====1=====2=====......\n");
}

TEST_CASE("only the requested step is drawn") {
  HandWritten written;
  gpipe_step(written);
  gpipe_step(written, 1000, 1);
  written.stretch(0, "optimizer", Category::optimizer, 20, 30);
  written.stretch(0, "recv", Category::wait, 3, 6);
  CHECK(draw_timeline(written.done(), 1, 34, false) == draw_timeline(written.done(), 0, 34, false));
  CHECK(draw_timeline(written.done(), 0, 34, false) ==
        "rank 0   0-1-2-......0===1===2===\n"
        "rank 1   ..0-1-2-0===1===2===....\n");
  CHECK(draw_timeline(written.done(), 2, 34, false).empty());
}

TEST_CASE("the halves of backward look different; microbatches continue after 9") {
  HandWritten written;
  written.forward(0, 9, 0, 5)
      .forward(0, 10, 5, 10)
      .action(0, Category::backward_input, 35, 10, 15)
      .action(0, Category::backward_weight, 36, 15, 20);
  CHECK(draw_timeline(written.done(), 0, 0, false) == "rank 0   9----a----z====#~~~~\n");
}

TEST_CASE("an action that gets no column yields to the next; rows keep their width") {
  HandWritten written;
  for (int m = 0; m < 10; ++m) written.forward(0, m, m, m + 1);  // each is a tenth of a column
  written.forward(0, 10, 10, 200);
  written.forward(1, 0, 100, 200);
  CHECK(draw_timeline(written.done(), 0, 30, false) ==
        "rank 0   4a------------------\n"
        "rank 1   ..........0---------\n");
}

TEST_CASE("without pipeline actions every span shows its first letter") {
  HandWritten written;
  written.stretch(0, "forward", Category::forward, 0, 5)
      .stretch(0, "backward", Category::backward, 5, 15)
      .stretch(0, "optimizer", Category::optimizer, 15, 20)
      .stretch(1, "late", Category::forward, 10, 20)
      .stretch(1, "recv", Category::wait, 0, 10);
  CHECK(draw_timeline(written.done(), 0, 30, false) ==
        "rank 0   f----b=========o++++\n"
        "rank 1   ..........l---------\n");
}

TEST_CASE("a wait is drawn at its place, even within an action") {
  HandWritten written;
  written.forward(0, 0, 0, 10).backward(0, 0, 10, 20);
  written.stretch(0, "all_gather", Category::wait, 0, 3);        // before the forward computes
  written.stretch(0, "all_gather", Category::wait, 12, 15);      // in the middle of the backward
  written.stretch(0, "reduce_scatter", Category::wait, 18, 20);  // at the end of the backward
  written.forward(1, 1, 0, 10).backward(1, 1, 10, 20);
  written.stretch(1, "recv", Category::wait, 10, 20);  // the whole time
  const Timeline& timeline = written.done();
  CHECK(draw_timeline(timeline, 0, 30, false) ==
        "rank 0   ...0------0=...===..\n"
        "rank 1   1---------1.........\n");
  const std::string coloured = draw_timeline(timeline, 0, 30, true);
  CHECK(without_colour(coloured) ==
        "rank 0   ...0      0 ...   ..\n"
        "rank 1   1         1.........\n");
  CHECK(coloured.find("\033[2m...\033[0m\033[48;5;25;97m0      \033[0m") != std::string::npos);
  CHECK(coloured.find("\033[48;5;29;97m   \033[0m\033[2m..\033[0m\n") != std::string::npos);
}

TEST_CASE("waits shorter than a column take their share of the columns") {
  HandWritten written;
  written.forward(0, 0, 0, 10'000);
  for (int i = 0; i < 100; ++i)  // 37 % of the time; each is a third of a column
    written.stretch(0, "all_gather", Category::wait, 100 * i + 50, 100 * i + 87);
  const std::string row = draw_timeline(written.done(), 0, 100, false);
  const auto dots = std::count(row.begin(), row.end(), '.');
  CHECK(dots >= 28);
  CHECK(dots <= 38);
}

TEST_CASE("colour does not change the width") {
  HandWritten written;
  gpipe_step(written);
  const std::string coloured = draw_timeline(written.done(), 0, 34, true);
  CHECK(without_colour(coloured) ==
        "rank 0   0 1 2 ......0   1   2   \n"
        "rank 1   ..0 1 2 0   1   2   ....\n");
  CHECK(coloured.find("\033[48;5;25;97m0 \033[0m") != std::string::npos);
  CHECK(coloured.find("\033[48;5;29;97m0   \033[0m") != std::string::npos);
  CHECK(coloured.find("\033[2m......\033[0m") != std::string::npos);
}

TEST_CASE("nothing computed, nothing drawn") {
  Timeline timeline;
  timeline.settle();
  CHECK(draw_timeline(timeline, 0, 100, false).empty());
  HandWritten waiting;
  waiting.stretch(0, "recv", Category::wait, 0, 10);
  CHECK(draw_timeline(waiting.done(), 0, 100, false).empty());
}
