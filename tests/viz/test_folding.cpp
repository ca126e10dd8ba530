#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "viz/data/layout/folding.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

/// A row of spans and gaps of random lengths, some of them zero.
SpanRow random_row(std::mt19937& random, int count, Picoseconds longest) {
  SpanRow row;
  Picoseconds at = 1000;
  for (int i = 0; i < count; ++i) {
    at += std::uniform_int_distribution<Picoseconds>(0, longest)(random) * (i % 5 == 0 ? 3 : 0);
    TimelineSpan span{.start = at};
    at += std::uniform_int_distribution<Picoseconds>(0, longest)(random);
    span.end = at;
    span.category = static_cast<Category>(i % 8);
    row.push_back(span);
  }
  return row;
}

/// Returns how many pixels of the window are covered by spans. Folding must preserve this number.
double covered(const SpanRow& row, const TimeWindow& window, double pixels) {
  double sum = 0;
  for (const TimelineSpan& span : row) {
    const double start = std::max(static_cast<double>(span.start), window.begin);
    const double end = std::min(static_cast<double>(span.end), window.end);
    sum += std::max(end - start, 0.0);
  }
  return sum * pixels / window.width();
}

}  // namespace

TEST_CASE("folding keeps the time in spans, and so the idle time, at any zoom") {
  std::mt19937 random{1};
  for (int round = 0; round < 400; ++round) {
    const SpanRow row = random_row(random, 1 + round * 3, 1 + round * 7);
    const auto whole = static_cast<double>(row.back().end);
    std::uniform_real_distribution<double> time(-0.1 * whole, 1.1 * whole);
    TimeWindow window{time(random), time(random)};
    if (window.end < window.begin) std::swap(window.begin, window.end);
    window.end += 1;
    const double pixels = std::uniform_real_distribution<double>(10, 2000)(random);
    std::vector<SpanBox> boxes;
    fold(row, window, pixels, boxes);
    double sum = 0;
    for (const SpanBox& box : boxes) {
      sum += box.width() * box.cover;
      REQUIRE(box.cover <= 1 + 1e-9);
      REQUIRE(box.left >= 0);
      if (box.span) REQUIRE(box.right <= pixels + 1e-9);
    }
    const double expected = covered(row, window, pixels);
    CAPTURE(round);
    REQUIRE(std::abs(sum - expected) < 1e-6 * std::max(1.0, expected));
  }
}

namespace {

/// Returns, for each pixel column, the share of its time in which spans of a kind run: work or
/// waits.
std::vector<double> busy(const SpanRow& row, const TimeWindow& window, std::size_t pixels,
                         bool waits) {
  std::vector<double> columns(pixels);
  const double width = window.width() / static_cast<double>(pixels);
  for (const TimelineSpan& span : row) {
    if ((span.category == Category::wait) != waits) continue;
    for (std::size_t i = 0; i < pixels; ++i) {
      const double begin = window.begin + width * static_cast<double>(i);
      const double overlap = std::min(static_cast<double>(span.end), begin + width) -
                             std::max(static_cast<double>(span.start), begin);
      if (overlap > 0) columns[i] += overlap / width;
    }
  }
  return columns;
}

}  // namespace

TEST_CASE("every pixel column shows its busy fraction, even with many spans in a column") {
  // Tests from one span in many columns to many thousands of spans in one column. Columns that look
  // alike are merged, which changes a column's work by less than a sixteenth.
  std::mt19937 random{2};
  for (const int spans : {20, 300, 5000, 60000}) {
    const SpanRow row = random_row(random, spans, 50);
    const TimeWindow window{0.9 * static_cast<double>(row.front().start),
                            1.02 * static_cast<double>(row.back().end)};
    constexpr std::size_t pixels = 211;
    std::vector<SpanBox> boxes;
    fold(row, window, pixels, boxes);
    std::vector<double> work(pixels);
    for (const bool waits : {false, true}) {
      const std::vector<double> expected = busy(row, window, pixels, waits);
      std::vector<double> seen(pixels);
      double sum = 0, expected_sum = 0;
      for (const SpanBox& box : boxes) {
        if ((box.category == Category::wait) != waits) continue;
        // A box ends where a pixel column does.
        REQUIRE(box.left == std::floor(box.left));
        REQUIRE(box.right == std::floor(box.right));
        // Work is drawn over waits.
        const auto right = static_cast<std::size_t>(box.right);
        for (auto x = static_cast<std::size_t>(box.left); x < right; ++x)
          seen[x] += box.opacity * (1 - (waits ? work[x] : 0));
        sum += box.width() * box.cover;
      }
      CAPTURE(spans);
      CAPTURE(waits);
      for (std::size_t i = 0; i < pixels; ++i) {
        CAPTURE(i);
        REQUIRE(std::abs(seen[i] - expected[i]) < (waits ? 0.25 : 1.0 / 16));
        expected_sum += expected[i];
      }
      work = seen;
      CHECK(sum == doctest::Approx(expected_sum));
    }
  }
}

TEST_CASE("a bubble narrower than a pixel stays visible between wide spans") {
  // At ten pixels per 1000, there is a gap of 0.3 pixels within column 10, and one of 0.4 across
  // columns 20 and 21.
  const SpanRow row{
      {.start = 0, .end = 1050}, {.start = 1080, .end = 2080}, {.start = 2120, .end = 3000}};
  std::vector<SpanBox> boxes;
  fold(row, {0, 3000}, 30, boxes);
  double cover[30] = {};
  for (const SpanBox& box : boxes)
    for (double x = box.left; x < box.right; ++x) cover[static_cast<std::size_t>(x)] += box.cover;
  for (int i = 0; i < 30; ++i)
    CHECK(cover[i] == doctest::Approx(i == 10 ? 0.7 : i == 20 || i == 21 ? 0.8 : 1));
}

TEST_CASE("idle time takes the columns that it touches, in the colour of its longest part") {
  const auto piece = [](Picoseconds start, Picoseconds end, StepPart part, int axis = -1) {
    return StepPiece{.time = {start, end}, .part = part, .axis = axis};
  };
  std::vector<IdleBox> boxes;
  fold_idle({piece(-50, 250, StepPart::warm_up), piece(250, 710, StepPart::compute),
             piece(710, 720, StepPart::waiting), piece(720, 730, StepPart::optimizer),
             piece(730, 760, StepPart::other), piece(800, 850, StepPart::other)},
            {}, {0, 1000}, 10, boxes);
  CHECK(boxes == std::vector<IdleBox>{{0, 3, StepPart::warm_up}, {7, 9, StepPart::other}});
  // The parts of exposed communication count together, by axis.
  boxes.clear();
  fold_idle({piece(0, 30, StepPart::transfer, 1), piece(30, 65, StepPart::late_peer, 0),
             piece(65, 100, StepPart::latency, 1)},
            {0, 4}, {0, 1000}, 10, boxes);
  CHECK(boxes == std::vector<IdleBox>{{0, 1, StepPart::latency, 4}});
  // Wide parts of an axis stay apart; one too narrow for its hatch joins its neighbour.
  boxes.clear();
  fold_idle({piece(0, 200, StepPart::transfer, 0), piece(200, 300, StepPart::latency, 0),
             piece(300, 320, StepPart::late_peer, 0), piece(320, 400, StepPart::latency, 1)},
            {0, 4}, {0, 1000}, 100, boxes);
  CHECK(boxes == std::vector<IdleBox>{{0, 20, StepPart::transfer, 0},
                                      {20, 32, StepPart::latency, 0},
                                      {32, 40, StepPart::latency, 4}});
}

TEST_CASE("a gap of a pixel or more between folds stays empty") {
  SpanRow row;
  for (int i = 0; i < 1000; ++i) row.push_back({.start = 10 * i, .end = 10 * i + 8});
  for (int i = 0; i < 1000; ++i)
    row.push_back({.start = 20000 + 10 * i, .end = 20000 + 10 * i + 8});
  std::vector<SpanBox> boxes;
  fold(row, {0, 30000}, 300, boxes);
  for (const SpanBox& box : boxes) {
    CHECK_FALSE((box.left < 199 && box.right > 101));
    CHECK(box.cover == doctest::Approx(0.8));
  }
  CHECK(boxes.size() == 2);  // spans that look alike form one box
  int spans = 0;
  for (const SpanBox& box : boxes) spans += box.count;
  CHECK(spans == 2000);
}

TEST_CASE("a wide enough span keeps its box; a fold takes its most common colour") {
  SpanRow row{{.start = 0, .end = 1000}};
  for (int i = 0; i < 10; ++i) {
    TimelineSpan span{.start = 1000 + i, .end = 1001 + i};
    span.category = i < 7 ? Category::backward : Category::forward;
    row.push_back(span);
  }
  std::vector<SpanBox> boxes;
  fold(row, {0, 2000}, 200, boxes);
  REQUIRE(boxes.size() == 2);
  REQUIRE(boxes[0].span);
  CHECK(boxes[0].span->end == 1000);
  CHECK(boxes[0].right == doctest::Approx(100));
  CHECK_FALSE(boxes[1].span);
  CHECK(boxes[1].category == Category::backward);
  CHECK(boxes[1].count == 10);
}

TEST_CASE("a span across two columns is counted once") {
  SpanRow row;
  for (int i = 0; i < 50; ++i) row.push_back({.start = 15 * i, .end = 15 * i + 14});
  std::vector<SpanBox> boxes;
  fold(row, {0, 1000}, 100, boxes);  // 1.4 pixels each
  int spans = 0;
  for (const SpanBox& box : boxes) spans += box.count;
  CHECK(spans == 50);
}

TEST_CASE("a span that is cut by the window's edge keeps its visible part") {
  const SpanRow row{{.start = -500, .end = 500}, {.start = 900, .end = 5000}};
  std::vector<SpanBox> boxes;
  fold(row, {0, 1000}, 100, boxes);
  REQUIRE(boxes.size() == 2);
  CHECK(boxes[0].left == 0);
  CHECK(boxes[0].right == doctest::Approx(50));
  CHECK(boxes[1].right == doctest::Approx(100));
}
