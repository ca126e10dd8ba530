#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "viz/data/folding.h"

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
    span.category = static_cast<Category>(i % 7);
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
    std::vector<Box> boxes;
    fold(row, window, pixels, boxes);
    double sum = 0;
    for (const Box& box : boxes) {
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

TEST_CASE("a gap of a pixel or more between folds stays empty") {
  SpanRow row;
  for (int i = 0; i < 1000; ++i) row.push_back({.start = 10 * i, .end = 10 * i + 8});
  for (int i = 0; i < 1000; ++i)
    row.push_back({.start = 20000 + 10 * i, .end = 20000 + 10 * i + 8});
  std::vector<Box> boxes;
  fold(row, {0, 30000}, 300, boxes);
  for (const Box& box : boxes) {
    CHECK_FALSE((box.left < 199 && box.right > 101));
    CHECK(box.cover == doctest::Approx(0.8));
  }
  CHECK(boxes.size() == 2);  // spans that look alike form one box
  int spans = 0;
  for (const Box& box : boxes) spans += box.count;
  CHECK(spans == 2000);
}

TEST_CASE("a wide enough span keeps its box; a fold takes its most common colour") {
  SpanRow row{{.start = 0, .end = 1000}};
  for (int i = 0; i < 10; ++i) {
    TimelineSpan span{.start = 1000 + i, .end = 1001 + i};
    span.category = i < 7 ? Category::backward : Category::forward;
    row.push_back(span);
  }
  std::vector<Box> boxes;
  fold(row, {0, 2000}, 200, boxes);
  REQUIRE(boxes.size() == 2);
  CHECK(boxes[0].span == &row[0]);
  CHECK(boxes[0].right == doctest::Approx(100));
  CHECK(boxes[1].span == nullptr);
  CHECK(boxes[1].category == Category::backward);
  CHECK(boxes[1].count == 10);
}

TEST_CASE("a span across two columns is counted once") {
  SpanRow row;
  for (int i = 0; i < 50; ++i) row.push_back({.start = 15 * i, .end = 15 * i + 14});
  std::vector<Box> boxes;
  fold(row, {0, 1000}, 100, boxes);  // 1.4 pixels each
  int spans = 0;
  for (const Box& box : boxes) spans += box.count;
  CHECK(spans == 50);
}

TEST_CASE("a span that is cut by the window's edge keeps its visible part") {
  const SpanRow row{{.start = -500, .end = 500}, {.start = 900, .end = 5000}};
  std::vector<Box> boxes;
  fold(row, {0, 1000}, 100, boxes);
  REQUIRE(boxes.size() == 2);
  CHECK(boxes[0].left == 0);
  CHECK(boxes[0].right == doctest::Approx(50));
  CHECK(boxes[1].right == doctest::Approx(100));
}
