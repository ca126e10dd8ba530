#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/trace/record.h"

namespace lockstep {

/// The records of one lane, and its open spans. The records form a single-producer, single-consumer
/// queue, from the thread that records on the lane to the trace writer's thread. At any time, one
/// thread may push records and open spans (callers must synchronize the transfer of a lane to
/// another thread), one thread may take records, and any number may look at open spans. No thread
/// ever waits.
///
/// The queue is a list of chunks. Chunks that the reader has finished are reused, so a queue that
/// is emptied as fast as it is filled allocates no memory; otherwise the queue grows.
class RecordQueue {
 public:
  /// If `keep_everything` is false, the queue keeps only the latest records for last(), at least
  /// 32.
  explicit RecordQueue(bool keep_everything);
  ~RecordQueue();
  RecordQueue(const RecordQueue&) = delete;
  RecordQueue& operator=(const RecordQueue&) = delete;

  // Called by the producer: the thread that records on the lane.
  void push(const Record::Words& words) {
    if (next_ == end_) [[unlikely]]
      grow();
    // The writer's thread was the last to read the slots ahead; prefetch one of them for writing.
    __builtin_prefetch(next_ + 8, 1);
    (next_++)->store(words);
    pushed_.store(++count_, std::memory_order_release);
  }
  /// Returns the number of records pushed.
  std::uint64_t pushed() const { return pushed_.load(std::memory_order_acquire); }

  static constexpr int most_open = 8;
  /// Opens a span. `words` is its record without the end. `since` is the steady-clock time in ns at
  /// which the span was opened, or -1 if the record's start implies that time. Returns the span's
  /// index among the open spans, or -1 if there are too many.
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
  /// Closes an open span and returns its record.
  Record::Words close(int which) {
    Opening& opening = openings_[static_cast<std::size_t>(which)];
    open_mask_ &= ~(1u << which);
    opening.version.store(opening.version.load(std::memory_order_relaxed) + 2,
                          std::memory_order_release);
    return opening.slot.load();
  }

  /// Whether a span is open at this index. For the producer.
  bool is_open(int which) const { return (open_mask_ >> which & 1) != 0; }

  struct Dropped {
    Record::Words words{};
    bool announced = false;
  };
  /// Closes a span that leaves no record. Returns whether announce() was called for it; in that
  /// case the announcement in the trace must be withdrawn.
  Dropped drop(int which) {
    Opening& opening = openings_[static_cast<std::size_t>(which)];
    open_mask_ &= ~(1u << which);
    const std::uint64_t version = opening.version.load(std::memory_order_relaxed);
    // Each side writes its own word before it reads the other's, so at least one side sees the
    // other's write.
    opening.version.store(version + 2, std::memory_order_seq_cst);
    return {opening.slot.load(), opening.announced.load(std::memory_order_seq_cst) == version};
  }

  // Called by the consumer: the thread that takes records.
  /// Call this before the trace announces a span that look() found. Returns false if the span has
  /// been closed or dropped since then.
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

  // Callable from any thread.
  struct Open {
    std::uint64_t version = 0;  ///< changes with each span
    Record::Words words{};
    std::int64_t since = -1;
  };
  /// Fills in `seen` and returns true if a span is open at this index.
  bool look(int which, Open& seen) const;
  /// Returns the last records that have not been overwritten yet, newest first: at least 32, if
  /// that many were pushed.
  std::vector<Record::Words> last() const;

 private:
  struct Chunk {
    explicit Chunk(std::size_t size) : capacity(size), slots(new Slot[size]) {}
    const std::size_t capacity;
    std::unique_ptr<Slot[]> slots;
    std::atomic<std::uint64_t> first{0};  ///< number of the chunk's first record
    std::atomic<Chunk*> next{nullptr}, previous{nullptr};
  };
  /// Holds one open span. `version` is 0 (mod 4) if no span is open, odd during a change, and 2
  /// (mod 4) if a span is open.
  struct Opening {
    std::atomic<std::uint64_t> version{0};
    std::atomic<std::int64_t> since{-1};
    std::atomic<std::uint64_t> announced{0};  ///< last version announced in the trace
    Slot slot;
  };
  [[gnu::noinline]] void grow();

  // Used by the producer.
  const bool keep_everything_;
  Slot* next_ = nullptr;
  Slot* end_ = nullptr;
  std::uint64_t count_ = 0;
  unsigned open_mask_ = 0;
  Chunk* tail_ = nullptr;
  Chunk* oldest_ = nullptr;
  std::atomic<std::uint64_t> pushed_{0};
  std::atomic<Chunk*> newest_{nullptr};  ///< tail_, for other threads
  std::array<Opening, most_open> openings_;

  // Used by the consumer.
  alignas(64) Chunk* reading_ = nullptr;
  std::size_t taken_in_chunk_ = 0;
  std::uint64_t taken_ = 0;
  std::atomic<Chunk*> behind_{nullptr};  ///< copy of reading_; chunks before it are free
};

}  // namespace lockstep
