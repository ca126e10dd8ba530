#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "core/base/span.h"
#include "core/time/time.h"
#include "viz/read/timeline/growing_array.h"

namespace lockstep {

/// The id of an interned string of a Timeline; 0 is the empty string.
using NameId = std::uint32_t;

/// A span as read from a trace. Missing numbers are -1, and missing strings are "".
struct TimelineSpan {
  Picoseconds start = 0;
  Picoseconds end = 0;
  std::int64_t bytes = -1;
  NameId name = 0;
  int step = -1;
  int stage = -1;
  int microbatch = -1;
  int peer = -1;
  int sequence = -1;
  NameId group = 0;
  int group_size = -1;
  std::int16_t layer = -1;
  std::uint16_t algorithm = 0;  ///< a NameId, or 0 if the id does not fit
  Category category = Category::kernel;

  Picoseconds duration() const { return end - start; }
};
static_assert(sizeof(TimelineSpan) <= 64, "ten million spans should stay below 640 MB");

/// Non-overlapping spans in order of time. Both starts and ends are ascending, so either can be
/// searched by bisection. The row also keeps the sums of its spans' durations, block by block, so
/// that the time in millions of spans is known without visiting them.
class SpanRow {
 public:
  using value_type = TimelineSpan;
  using iterator = TimelineSpan*;
  using const_iterator = const TimelineSpan*;

  /// The number of spans in a block. The sums take 6.5 bytes per span.
  static constexpr std::size_t block_size = 16;
  struct Block {
    Picoseconds end = 0;  ///< of the block's last span
    /// The durations of all spans up to the block's end, by category.
    std::array<Picoseconds, category_count> until{};
  };

  SpanRow() = default;
  SpanRow(std::initializer_list<TimelineSpan> spans) {
    for (const TimelineSpan& span : spans) push_back(span);
  }

  bool empty() const { return spans_.empty(); }
  std::size_t size() const { return spans_.size(); }
  const TimelineSpan& operator[](std::size_t i) const { return spans_[i]; }
  const TimelineSpan& front() const { return spans_.front(); }
  const TimelineSpan& back() const { return spans_.back(); }
  /// Changing a span's times or category through an iterator is not allowed.
  iterator begin() { return spans_.begin(); }
  iterator end() { return spans_.end(); }
  const_iterator begin() const { return spans_.begin(); }
  const_iterator end() const { return spans_.end(); }
  auto rbegin() const { return spans_.rbegin(); }
  auto rend() const { return spans_.rend(); }
  /// The blocks in order; the last, incomplete block is missing.
  const GrowingArray<Block>& blocks() const { return blocks_; }

  void push_back(const TimelineSpan& span) {
    spans_.push_back(span);
    if (spans_.size() % block_size == 0) close_block();
  }
  /// Removes the spans from `from` on.
  void erase_from(const_iterator from) {
    spans_.erase(from, spans_.end());
    blocks_.erase(blocks_.begin() + spans_.size() / block_size, blocks_.end());
  }

 private:
  void close_block() {
    Block block = blocks_.empty() ? Block{} : blocks_.back();
    block.end = spans_.back().end;
    for (std::size_t i = spans_.size() - block_size; i < spans_.size(); ++i)
      block.until[static_cast<std::size_t>(spans_[i].category)] += spans_[i].duration();
    blocks_.push_back(block);
  }

  GrowingArray<TimelineSpan> spans_;
  GrowingArray<Block> blocks_;
};

}  // namespace lockstep
