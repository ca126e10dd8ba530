#include <doctest/doctest.h>

#include "core/text/text_row.h"

using namespace lockstep;

TEST_CASE("a block begins with what fits of its label; the rest is filled") {
  TextRow row{{0, 10, 10}, false};
  row.add(0, 2, "F0");
  row.add(2, 3, "B10");
  row.add(5, 9, "W", {'=', ""});
  CHECK(row.text() == "F0B..W===.");
}

TEST_CASE("blocks shorter than a column are left out, or take `least` columns") {
  for (const int least : {0, 1}) {
    TextRow row{{100, 10, 10, least}, false};
    row.add(104, 104, "x");
    row.add(106, 107, "y");
    row.add(110, 110, "z");
    CHECK(row.text() == (least == 0 ? "......y..." : "....x.y..z"));
  }
}

TEST_CASE("times in the middle of a column are rounded up, exactly") {
  // 7 / 20 of 170 columns are 59.5; in floating point, 7.0 / 20 * 170 is a little less.
  CHECK(TextScale{0, 20, 170}.column(7) == 60);
}
