#include "core/trace/record_queue.h"

#include <algorithm>

namespace lockstep {

namespace {

constexpr std::size_t remembered = 32;
constexpr std::size_t first_chunk = 64, largest_chunk = 1024;  // records: 4 KiB and 64 KiB
constexpr std::uint64_t being_rewritten = ~std::uint64_t{0};

}  // namespace

RecordQueue::RecordQueue(bool keep_everything) : keep_everything_(keep_everything) {
  tail_ = oldest_ = reading_ = new Chunk(keep_everything ? first_chunk : remembered);
  next_ = tail_->slots.get();
  end_ = next_ + tail_->capacity;
  newest_ = behind_ = tail_;
}

RecordQueue::~RecordQueue() {
  while (oldest_ != nullptr) {
    Chunk* next = oldest_->next.load(std::memory_order_relaxed);
    delete oldest_;
    oldest_ = next;
  }
}

// Keeps the full chunk for last(), even if the reader has already taken its records. Reuses older
// chunks, once their records have been taken.
void RecordQueue::grow() {
  Chunk* const behind = keep_everything_ ? behind_.load(std::memory_order_acquire) : tail_;
  Chunk* fresh = nullptr;
  if (oldest_ != behind && oldest_ != tail_) {
    fresh = oldest_;
    oldest_ = fresh->next.load(std::memory_order_relaxed);
    fresh->first.store(being_rewritten, std::memory_order_relaxed);
    fresh->next.store(nullptr, std::memory_order_relaxed);
  } else {
    fresh = new Chunk(keep_everything_ ? std::min(2 * tail_->capacity, largest_chunk) : remembered);
    fresh->first.store(being_rewritten, std::memory_order_relaxed);
  }
  fresh->previous.store(tail_, std::memory_order_release);
  fresh->first.store(count_, std::memory_order_release);
  tail_->next.store(fresh, std::memory_order_release);
  tail_ = fresh;
  next_ = fresh->slots.get();
  end_ = next_ + fresh->capacity;
  newest_.store(fresh, std::memory_order_release);
}

bool RecordQueue::look(int which, Open& seen) const {
  const Opening& opening = openings_[static_cast<std::size_t>(which)];
  const std::uint64_t version = opening.version.load(std::memory_order_acquire);
  if (version % 4 != 2) return false;
  const std::int64_t since = opening.since.load(std::memory_order_acquire);
  const Record::Words words = opening.slot.load();
  if (opening.version.load(std::memory_order_relaxed) != version) return false;
  seen = {version, words, since};
  return true;
}

// If a chunk is reused during this call, its `first` changes before its slots do, and the records
// read from it are discarded.
std::vector<Record::Words> RecordQueue::last() const {
  std::vector<Record::Words> found;
  const Chunk* chunk = newest_.load(std::memory_order_acquire);
  const std::uint64_t pushed = pushed_.load(std::memory_order_acquire);
  for (int chunks = 0; chunks < 2 && chunk != nullptr && found.size() < remembered; ++chunks) {
    const std::size_t before = found.size();
    const std::uint64_t first = chunk->first.load(std::memory_order_acquire);
    if (first == being_rewritten || first > pushed) break;
    const Chunk* previous = chunk->previous.load(std::memory_order_acquire);
    const std::size_t filled = std::min<std::size_t>(pushed - first, chunk->capacity);
    for (std::size_t i = filled; i > 0 && found.size() < 2 * remembered; --i)
      found.push_back(chunk->slots[i - 1].load());
    if (chunk->first.load(std::memory_order_relaxed) != first) {
      found.resize(before);
      break;
    }
    chunk = previous;
  }
  return found;
}

}  // namespace lockstep
