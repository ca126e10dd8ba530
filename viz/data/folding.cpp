#include "viz/data/folding.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep::viz {
namespace {

constexpr double same_cover = 1.0 / 16;  // adjacent columns whose cover differs by less are merged

/// One pixel column under construction: the part of the column covered by each category.
struct Column {
  double left = -1;
  std::array<double, category_count> part{};
  double sum = 0;
  int count = 0;
};

void flush(Column& column, std::vector<Box>& boxes) {
  if (column.sum <= 0 && column.count == 0) return;
  const auto most = std::max_element(column.part.begin(), column.part.end());
  Box box{column.left, column.left + 1, column.sum};
  box.category = static_cast<Category>(most - column.part.begin());
  box.count = column.count;
  Box* last = boxes.empty() ? nullptr : &boxes.back();
  if (last && !last->span && last->right == box.left && last->category == box.category &&
      std::abs(last->cover - box.cover) < same_cover) {
    last->cover = (last->cover * last->width() + box.cover) / (last->width() + 1);
    last->right = box.right;
    last->count += box.count;
  } else {
    boxes.push_back(box);
  }
  column = {};
}

}  // namespace

SpanRow::const_iterator first_ending_after(const SpanRow& row, double time) {
  return std::partition_point(row.begin(), row.end(), [&](const TimelineSpan& span) {
    return static_cast<double>(span.end) <= time;
  });
}

void fold(const SpanRow& row, const TimeWindow& window, double pixels, std::vector<Box>& boxes) {
  boxes.clear();
  const double scale = pixels / window.width();
  Column column;
  for (auto span = first_ending_after(row, window.begin); span != row.end(); ++span) {
    if (static_cast<double>(span->start) >= window.end) break;
    const double x0 = (static_cast<double>(span->start) - window.begin) * scale;
    const double x1 = (static_cast<double>(span->end) - window.begin) * scale;
    const double left = std::max(x0, 0.0);
    const double right = std::min(x1, pixels);
    if (x1 - x0 >= fold_below) {
      flush(column, boxes);
      boxes.push_back({left, right, 1, &*span, span->category, 1});
      continue;
    }
    for (double at = left; at < right;) {
      const double first = std::floor(at);
      if (first != column.left) {
        flush(column, boxes);
        column.left = first;
      }
      const double until = std::min(right, first + 1);
      column.part[static_cast<std::size_t>(span->category)] += until - at;
      column.sum += until - at;
      if (at == left) ++column.count;
      at = until;
    }
  }
  flush(column, boxes);
}

}  // namespace lockstep::viz
