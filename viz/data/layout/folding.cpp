#include "viz/data/layout/folding.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "viz/data/layout/explanations.h"
#include "viz/data/step/mean_step.h"

namespace lockstep::viz {
namespace {

// Adjacent columns whose opacity differs by less are merged. Waits look much like idle time, so
// larger differences between them are invisible.
constexpr double same_work = 1.0 / 32, same_waits = 1.0 / 8;

/// The work, or the waits, in a pixel column.
struct Part {
  std::array<double, category_count> by_category{};
  double sum = 0;
  int count = 0;                     ///< spans that begin here
  std::optional<TimelineSpan> span;  ///< the wide span that covers most of the column
  double of_span = 0;

  void add(Category category, double cover) {
    by_category[static_cast<std::size_t>(category)] += cover;
    sum += cover;
  }
};

/// Builds the boxes from left to right.
class Folder {
 public:
  Folder(double pixels, std::vector<SpanBox>& boxes) : pixels_(pixels), boxes_(boxes) {}

  /// Returns the part of a column to which spans of a category belong. Columns must be requested in
  /// order.
  Part& part(double column, Category category) {
    if (column != column_) {
      flush();
      column_ = column;
    }
    return category == Category::wait ? waits_ : work_;
  }
  /// Adds the columns from `left` to `right`, which one span covers.
  void add_whole(double left, double right, const TimelineSpan& span) {
    flush();
    boxes_.push_back(
        {.left = left, .right = right, .span = span, .category = span.category, .whole = true});
  }
  void flush() {
    const double width = std::min(pixels_ - column_, 1.0);  // the last column may be narrower
    const double idle = std::max(width - work_.sum, 0.0);
    // Waits are drawn first, so work covers some of them.
    if (waits_.count > 0 || waits_.sum > 0)
      put(waits_, width, idle > waits_.sum ? waits_.sum / idle : 1, last_waits_);
    if (work_.count > 0 || work_.sum > 0)
      put(work_, width, std::min(work_.sum / width, 1.0), last_work_);
    work_ = waits_ = {};
  }

 private:
  /// The last box of work or of waits, and the opacity of its first column.
  struct Last {
    std::size_t box = static_cast<std::size_t>(-1);
    double opacity = 0;
  };
  /// Adds a column's box, or extends the box of the column before it if the two look alike.
  void put(const Part& part, double width, double opacity, Last& last) {
    const auto most = std::ranges::max_element(part.by_category);
    const SpanBox box{.left = column_,
                      .right = column_ + width,
                      .cover = part.sum / width,
                      .opacity = opacity,
                      .span = part.span,
                      .category = static_cast<Category>(most - part.by_category.begin()),
                      .count = part.count};
    if (last.box < boxes_.size() && !part.span) {
      SpanBox& before = boxes_[last.box];
      if (!before.span && before.right == box.left && before.category == box.category &&
          std::abs(last.opacity - box.opacity) <
              (box.category == Category::wait ? same_waits : same_work)) {
        const double share = width / (before.width() + width);
        before.cover += share * (box.cover - before.cover);
        before.opacity += share * (box.opacity - before.opacity);
        before.right = box.right;
        before.count += box.count;
        return;
      }
    }
    last = {boxes_.size(), opacity};
    boxes_.push_back(box);
  }

  double pixels_;
  std::vector<SpanBox>& boxes_;
  double column_ = -1;
  Part work_, waits_;
  Last last_work_, last_waits_;
};

}  // namespace

SpanRow::const_iterator first_ending_after(const SpanRow& row, double time) {
  return std::partition_point(row.begin(), row.end(), [&](const TimelineSpan& span) {
    return static_cast<double>(span.end) <= time;
  });
}

void fold(const SpanRow& row, const TimeWindow& window, double pixels,
          std::vector<SpanBox>& boxes) {
  boxes.clear();
  const double scale = pixels / window.width();
  const auto x = [&](Picoseconds time) {
    return (static_cast<double>(time) - window.begin) * scale;
  };
  Folder folder{pixels, boxes};
  const auto& blocks = row.blocks();
  // Adjacent columns hold about equally many blocks.
  std::ptrdiff_t likely = 1;
  /// Adds the blocks within a pixel column, beginning with number `first`, and returns how many
  /// there are.
  const auto add_blocks = [&](std::size_t first, double column) -> std::size_t {
    if (column + 1 > pixels) return 0;
    const auto inside = [&](const SpanRow::Block& block) { return x(block.end) <= column + 1; };
    const auto begin = blocks.begin() + first;
    // Bracket the first block outside the column. Start where it is likely to be, and double each
    // step.
    auto low = begin, high = begin + std::min(likely, blocks.end() - begin);
    for (std::ptrdiff_t step = 1; high > low && !inside(*std::prev(high)); step *= 2)
      high -= std::min(step, high - low);
    low = high;
    for (std::ptrdiff_t step = 1; high < blocks.end() && inside(*high); step *= 2) {
      low = high + 1;
      high += std::min(step, blocks.end() - high);
    }
    const auto last = std::partition_point(low, high, inside);
    likely = last - begin;
    if (last == begin) return 0;
    const auto count = static_cast<std::size_t>(last - begin);
    for (std::size_t c = 0; c < category_count; ++c) {
      const Picoseconds before = first > 0 ? blocks[first - 1].until[c] : 0;
      const Picoseconds time = std::prev(last)->until[c] - before;
      if (time <= 0) continue;
      const auto category = static_cast<Category>(c);
      folder.part(column, category).add(category, static_cast<double>(time) * scale);
    }
    // The category of each span is not known here, so all count with the category of the first.
    const Category kind = row.category(first * SpanRow::block_size);
    folder.part(column, kind).count += static_cast<int>(count * SpanRow::block_size);
    return count;
  };
  auto i = static_cast<std::size_t>(first_ending_after(row, window.begin) - row.begin());
  while (i < row.size()) {
    if (static_cast<double>(row.start(i)) >= window.end) break;
    const double x0 = x(row.start(i)), x1 = x(row.end(i));
    if (x0 >= 0 && x1 - x0 < fold_below && i % SpanRow::block_size == 0 &&
        i / SpanRow::block_size < blocks.size()) {
      if (const auto added = add_blocks(i / SpanRow::block_size, std::floor(x0)); added > 0) {
        i += added * SpanRow::block_size;
        continue;
      }
    }
    const Category category = row.category(i);
    const double left = std::max(x0, 0.0), right = std::min(x1, pixels);
    const bool wide = x1 - x0 >= fold_below;
    if (left >= right) {  // a span without length counts, but covers nothing
      if (left < pixels) ++folder.part(std::floor(left), category).count;
    }
    for (double at = left; at < right;) {
      const double column = std::floor(at);
      if (wide && at == column && column + 1 <= right) {
        const double until = right == pixels ? right : std::floor(right);
        folder.add_whole(at, until, row[i]);
        at = until;
        continue;
      }
      const double until = std::min(right, column + 1);
      Part& part = folder.part(column, category);
      part.add(category, until - at);
      if (!wide && at == left) ++part.count;
      if (wide && until - at > part.of_span) {
        part.of_span = until - at;
        part.span = row[i];
      }
      at = until;
    }
    ++i;
  }
  folder.flush();
}

namespace {

/// Collects the parts of idle time, column by column.
class IdleFolder {
 public:
  IdleFolder(double pixels, std::vector<IdleBox>& boxes) : pixels_(pixels), boxes_(boxes) {}

  /// Adds a piece between two positions within a pixel column.
  void add(double left, double right, StepPart part, int slot) {
    const double column = std::floor(left);
    if (column != column_) flush();
    column_ = column;
    times_[slot < 0 ? static_cast<std::size_t>(part) : step_part_count + to_size(slot)] +=
        right - left;
    if (slot >= 0) exposed_[to_size(slot)][static_cast<std::size_t>(part)] += right - left;
  }
  /// Adds a piece that fills whole pixel columns.
  void add_whole(double left, double right, StepPart part, int slot) {
    flush();
    put({.left = left, .right = right, .part = part, .slot = slot});
  }
  /// Ends the column and assigns it to the longest part. The parts of an axis count together.
  void flush() {
    if (column_ < 0) return;
    const auto most = std::ranges::max_element(times_) - times_.begin();
    IdleBox box{.left = column_, .right = std::min(column_ + 1, pixels_)};
    if (most < step_part_count) {
      box.part = static_cast<StepPart>(most);
    } else {
      box.slot = static_cast<int>(most) - step_part_count;
      const auto& parts = exposed_[to_size(box.slot)];
      box.part = static_cast<StepPart>(std::ranges::max_element(parts) - parts.begin());
    }
    put(box);
    times_ = {};
    exposed_ = {};
    column_ = -1;
  }

 private:
  static std::size_t to_size(int slot) { return static_cast<std::size_t>(slot); }

  void put(const IdleBox& box) {
    if (!boxes_.empty() && boxes_.back().right == box.left && boxes_.back().slot == box.slot) {
      IdleBox& before = boxes_.back();
      const bool same = before.part == box.part;
      // If the parts of an axis are too narrow to show their hatch, they join their neighbour.
      const double narrow = std::min(before.right - before.left, box.right - box.left);
      if (same || (box.slot >= 0 && narrow < least_hatched)) {
        if (box.right - box.left > before.right - before.left) before.part = box.part;
        before.right = box.right;
        return;
      }
    }
    boxes_.push_back(box);
  }

  double pixels_;
  std::vector<IdleBox>& boxes_;
  double column_ = -1;
  /// The times in the column, in pixels: by part and, for exposed communication, by slot.
  std::array<double, step_part_count + axis_slot_count> times_{};
  std::array<std::array<double, step_part_count>, axis_slot_count> exposed_{};
};

}  // namespace

void fold_idle(const std::vector<StepPiece>& pieces, const std::vector<int>& slots,
               const TimeWindow& window, double pixels, std::vector<IdleBox>& boxes) {
  const double scale = pixels / window.width();
  IdleFolder folder{pixels, boxes};
  auto at = std::ranges::partition_point(pieces, [&](const StepPiece& each) {
    return static_cast<double>(each.time.end) <= window.begin;
  });
  for (; at != pieces.end() && static_cast<double>(at->time.start) < window.end; ++at) {
    if (!is_idle(at->part)) continue;
    const int slot = at->axis >= 0 ? slots[static_cast<std::size_t>(at->axis)] : -1;
    const double right =
        std::min((static_cast<double>(at->time.end) - window.begin) * scale, pixels);
    for (double x = std::max((static_cast<double>(at->time.start) - window.begin) * scale, 0.0);
         x < right;) {
      const double first = std::floor(x);
      const bool whole = first == x && first + 1 <= right;
      const double until = whole ? std::floor(right) : std::min(right, first + 1);
      if (whole) {
        folder.add_whole(x, until, at->part, slot);
      } else {
        folder.add(x, until, at->part, slot);
      }
      x = until;
    }
  }
  folder.flush();
}

}  // namespace lockstep::viz
