#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/trace/record.h"

namespace lockstep {

/// What one lane records: a queue from the thread that works on the lane to the one that writes the
/// trace, and the spans that are open on it. One thread at a time puts in and opens (handing a lane
/// over is ordered by the callers); one at a time takes out; any may look. Nobody waits for
/// anybody.
///
/// The queue is a chain of chunks. What the taker has left behind is used again, so a queue that is
/// emptied as fast as it fills asks for no memory; one that is not grows.
class LaneQueue {
 public:
  /// A queue that does not keep everything just remembers the last records: at least the last 32,
  /// for who looks.
  explicit LaneQueue(bool keep_everything);
  ~LaneQueue();
  LaneQueue(const LaneQueue&) = delete;
  LaneQueue& operator=(const LaneQueue&) = delete;

  // For the thread that works on the lane.
  void push(const Record::Words& words) {
    if (next_ == end_) [[unlikely]]
      grow();
    // What the writer's thread has read last is fetched before it is needed.
    __builtin_prefetch(next_ + 8, 1);
    (next_++)->store(words);
    pushed_.store(++count_, std::memory_order_release);
  }
  /// How many records have been put in.
  std::uint64_t pushed() const { return pushed_.load(std::memory_order_acquire); }

  static constexpr int most_open = 8;
  /// A span begins: its record, `end` not known yet, and the steady clock (ns), or -1 where `start`
  /// tells that. Returns which of the open ones it is, or -1 if there are too many.
  int open(const Record::Words& words, std::int64_t since) {
    const int which = std::countr_one(open_mask_);
    if (which >= most_open) return -1;
    open_mask_ |= 1u << which;
    Opening& opening = openings_[static_cast<std::size_t>(which)];
    const std::uint64_t version = opening.version.load(std::memory_order_relaxed);
    opening.version.store(version + 1, std::memory_order_relaxed);
    opening.since.store(since, std::memory_order_release);
    opening.slot.store(words);
    opening.version.store(version + 2, std::memory_order_release);
    return which;
  }
  /// It is open no more; returns its record.
  Record::Words close(int which) {
    Opening& opening = openings_[static_cast<std::size_t>(which)];
    open_mask_ &= ~(1u << which);
    opening.version.store(opening.version.load(std::memory_order_relaxed) + 2,
                          std::memory_order_release);
    return opening.slot.load();
  }

  struct Dropped {
    Record::Words words{};
    bool announced = false;
  };
  /// The same for a span that leaves no record. Says whether announce() came first: the trace then
  /// has an announcement that must be withdrawn.
  Dropped drop(int which) {
    Opening& opening = openings_[static_cast<std::size_t>(which)];
    open_mask_ &= ~(1u << which);
    const std::uint64_t version = opening.version.load(std::memory_order_relaxed);
    // Each side writes its own word before it reads the other's, so at least one sees the other.
    opening.version.store(version + 2, std::memory_order_seq_cst);
    return {opening.slot.load(), opening.announced.load(std::memory_order_seq_cst) == version};
  }

  // For the thread that takes out.
  /// To be called before a span that look() found is announced in the trace. False if the span has
  /// been closed or dropped since.
  bool announce(int which, std::uint64_t version) {
    Opening& opening = openings_[static_cast<std::size_t>(which)];
    opening.announced.store(version, std::memory_order_seq_cst);
    return opening.version.load(std::memory_order_seq_cst) == version;
  }
  template <class Take>
  void take(Take&& each) {
    const std::uint64_t pushed = pushed_.load(std::memory_order_acquire);
    while (taken_ < pushed) {
      if (taken_in_chunk_ == reading_->capacity) {
        reading_ = reading_->next.load(std::memory_order_acquire);
        taken_in_chunk_ = 0;
      }
      ++taken_;
      each(reading_->slots[taken_in_chunk_++].load());
    }
    behind_.store(reading_, std::memory_order_release);
  }

  // For anyone.
  struct Open {
    std::uint64_t version = 0;  ///< another one: another span
    Record::Words words{};
    std::int64_t since = -1;
  };
  /// The span that is open there, if one is. `seen` is only filled in then.
  bool look(int which, Open& seen) const;
  /// The last records, newest first, as far as they have not been overwritten; some 32 at least, if
  /// so many were put in.
  std::vector<Record::Words> last() const;

 private:
  struct Chunk {
    explicit Chunk(std::size_t size) : capacity(size), slots(new Slot[size]) {}
    const std::size_t capacity;
    std::unique_ptr<Slot[]> slots;
    std::atomic<std::uint64_t> first{0};  ///< how many records were put in before its own
    std::atomic<Chunk*> next{nullptr}, previous{nullptr};
  };
  /// Version: 0 (mod 4) closed, odd while it changes, 2 open.
  struct Opening {
    std::atomic<std::uint64_t> version{0};
    std::atomic<std::int64_t> since{-1};
    std::atomic<std::uint64_t> announced{0};  ///< the last version in the trace
    Slot slot;
  };
  [[gnu::noinline]] void grow();

  // The thread that works on the lane.
  const bool keep_everything_;
  Slot* next_ = nullptr;
  Slot* end_ = nullptr;
  std::uint64_t count_ = 0;
  unsigned open_mask_ = 0;
  Chunk* tail_ = nullptr;
  Chunk* oldest_ = nullptr;
  std::atomic<std::uint64_t> pushed_{0};
  std::atomic<Chunk*> newest_{nullptr};  ///< tail_, for others
  std::array<Opening, most_open> openings_;

  // The thread that takes out.
  alignas(64) Chunk* reading_ = nullptr;
  std::size_t taken_in_chunk_ = 0;
  std::uint64_t taken_ = 0;
  std::atomic<Chunk*> behind_{nullptr};  ///< reading_: chunks before it are free
};

}  // namespace lockstep
