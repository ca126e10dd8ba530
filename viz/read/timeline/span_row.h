#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <utility>

#include "viz/read/timeline/growing_array.h"
#include "viz/read/timeline/span_descriptions.h"

namespace lockstep {

/// Non-overlapping spans in order of time. Both starts and ends are ascending, so either can be
/// searched by bisection. The row also keeps the sums of its spans' durations, block by block, so
/// that the time in millions of spans is known without visiting them.
///
/// A span takes 35 bytes. Reading one puts it together from these and from its description, so
/// spans are values: there are no pointers to them. start(), end() and category() read one field.
class SpanRow {
 public:
  class Iterator;
  using value_type = TimelineSpan;
  using iterator = Iterator;
  using const_iterator = Iterator;

  /// The number of spans in a block. The sums take 3.25 bytes per span.
  static constexpr std::size_t block_size = 32;
  struct Block {
    Picoseconds end = 0;  ///< of the block's last span
    /// The durations of all spans up to the block's end, by category.
    std::array<Picoseconds, category_count> until{};
  };

  /// Rows may share their descriptions.
  explicit SpanRow(std::shared_ptr<SpanDescriptions> descriptions)
      : descriptions_(std::move(descriptions)) {}
  SpanRow() : SpanRow(std::make_shared<SpanDescriptions>()) {}
  SpanRow(std::initializer_list<TimelineSpan> spans) : SpanRow() {
    for (const TimelineSpan& span : spans) push_back(span);
  }

  bool empty() const { return spans_.empty(); }
  std::size_t size() const { return spans_.size(); }
  Picoseconds start(std::size_t i) const { return spans_[i].start; }
  Picoseconds end(std::size_t i) const { return spans_[i].end; }
  Category category(std::size_t i) const {
    return (*descriptions_)[spans_[i].description].category;
  }
  TimelineSpan operator[](std::size_t i) const { return unpacked(spans_[i], *descriptions_); }
  TimelineSpan front() const { return (*this)[0]; }
  TimelineSpan back() const { return (*this)[size() - 1]; }
  Iterator begin() const;
  Iterator end() const;
  std::reverse_iterator<Iterator> rbegin() const;
  std::reverse_iterator<Iterator> rend() const;
  /// The blocks in order; the last, incomplete block is missing.
  const GrowingArray<Block>& blocks() const { return blocks_; }

  void push_back(const TimelineSpan& span) {
    spans_.push_back({.start = span.start,
                      .end = span.end,
                      .description = descriptions_->find(span),
                      .step = span.step,
                      .sequence = span.sequence,
                      .message = static_cast<std::uint32_t>(span.message)});
    if (spans_.size() % block_size == 0) close_block();
  }
  /// Lets a span name a message.
  void name_message(std::size_t i, std::uint64_t id, MessageRole role) {
    TimelineSpan span = (*this)[i];
    span.message = id;
    span.role = role;
    spans_[i].description = descriptions_->find(span);
    spans_[i].message = static_cast<std::uint32_t>(id);
  }
  /// Removes the spans from `from` on.
  void erase_from(Iterator from);

 private:
  struct Packed {
    Picoseconds start, end;
    SpanDescriptions::Id description;
    std::int32_t step, sequence;
    std::uint32_t message;  ///< the low half of its id
  };
  static TimelineSpan unpacked(const Packed& packed, const SpanDescriptions& descriptions) {
    TimelineSpan span = descriptions[packed.description];
    span.start = packed.start;
    span.end = packed.end;
    span.step = packed.step;
    span.sequence = packed.sequence;
    span.message |= packed.message;
    return span;
  }
  void close_block() {
    Block block = blocks_.empty() ? Block{} : blocks_.back();
    block.end = spans_.back().end;
    for (std::size_t i = size() - block_size; i < size(); ++i)
      block.until[static_cast<std::size_t>(category(i))] += end(i) - start(i);
    blocks_.push_back(block);
  }

  GrowingArray<Packed> spans_;
  GrowingArray<Block> blocks_;
  std::shared_ptr<SpanDescriptions> descriptions_;
};

/// A position in a row. Valid until a span is added.
class SpanRow::Iterator {
 public:
  using iterator_category = std::random_access_iterator_tag;
  using value_type = TimelineSpan;
  using difference_type = std::ptrdiff_t;
  using reference = TimelineSpan;
  /// The span of `at->member`.
  class pointer {
   public:
    explicit pointer(const TimelineSpan& span) : span_(span) {}
    const TimelineSpan* operator->() const { return &span_; }

   private:
    TimelineSpan span_;
  };

  Iterator() = default;

  TimelineSpan operator*() const { return unpacked(*at_, *descriptions_); }
  pointer operator->() const { return pointer{**this}; }
  TimelineSpan operator[](difference_type n) const { return *(*this + n); }
  Iterator& operator+=(difference_type n) {
    at_ += n;
    return *this;
  }
  Iterator& operator-=(difference_type n) { return *this += -n; }
  Iterator& operator++() { return *this += 1; }
  Iterator& operator--() { return *this += -1; }
  Iterator operator++(int) { return std::exchange(*this, *this + 1); }
  Iterator operator--(int) { return std::exchange(*this, *this - 1); }
  friend Iterator operator+(Iterator at, difference_type n) { return at += n; }
  friend Iterator operator+(difference_type n, Iterator at) { return at += n; }
  friend Iterator operator-(Iterator at, difference_type n) { return at -= n; }
  friend difference_type operator-(const Iterator& a, const Iterator& b) { return a.at_ - b.at_; }
  friend bool operator==(const Iterator& a, const Iterator& b) { return a.at_ == b.at_; }
  friend auto operator<=>(const Iterator& a, const Iterator& b) { return a.at_ <=> b.at_; }

 private:
  friend SpanRow;
  Iterator(const Packed* at, const SpanDescriptions* descriptions)
      : at_(at), descriptions_(descriptions) {}

  const Packed* at_ = nullptr;
  const SpanDescriptions* descriptions_ = nullptr;
};

inline SpanRow::Iterator SpanRow::begin() const {
  return {spans_.begin(), descriptions_.get()};
}
inline SpanRow::Iterator SpanRow::end() const {
  return {spans_.end(), descriptions_.get()};
}
inline std::reverse_iterator<SpanRow::Iterator> SpanRow::rbegin() const {
  return std::make_reverse_iterator(end());
}
inline std::reverse_iterator<SpanRow::Iterator> SpanRow::rend() const {
  return std::make_reverse_iterator(begin());
}

inline void SpanRow::erase_from(Iterator from) {
  spans_.erase(from.at_, spans_.end());
  blocks_.erase(blocks_.begin() + size() / block_size, blocks_.end());
}

}  // namespace lockstep
