#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <stdexcept>

#include "core/trace/record_queue.h"
#include "core/trace/recorder.h"

namespace lockstep {

/// Fields whose values many spans share; a record refers to such a combination by number.
struct Recorder::Label {
  const char* group = nullptr;
  const char* algorithm = nullptr;
  int group_size = -1;
  bool operator==(const Label&) const = default;
};

struct Recorder::Lane {
  explicit Lane(bool on) : queue(on) {}
  /// Pushes a record that is not a span.
  void push_other(const Record::Words& words) {
    others.store(others.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    queue.push(words);
  }
  std::int64_t spans() const {
    return static_cast<std::int64_t>(queue.pushed()) - others.load(std::memory_order_relaxed);
  }

  RecordQueue queue;
  Label label;  ///< the last span's label, whose number is label_id
  std::uint16_t label_id = 0;
  std::atomic<std::int64_t> others{0};  ///< number of records that are not spans

  /// The last announcement of an open span: its version, and when to announce it again.
  struct Announcement {
    std::uint64_t version = 0;
    std::int64_t next = 0;
  };
  std::array<Announcement, RecordQueue::most_open> announcements{};
};

/// Lanes by number. Adding a lane needs the recorder's lock; finding one does not.
struct Recorder::Block {
  static constexpr std::size_t page = 64, most = page * 64;
  using Page = std::array<std::unique_ptr<Lane>, page>;

  void add(std::size_t id, bool on) {
    if (id % page == 0) {
      owned[id / page] = std::make_unique<Page>();
      pages[id / page].store(owned[id / page].get(), std::memory_order_release);
    }
    (*owned[id / page])[id % page] = std::make_unique<Lane>(on);
    count.store(id + 1, std::memory_order_release);
  }
  Lane& lane(std::size_t id) const {
    if (id >= count.load(std::memory_order_acquire)) [[unlikely]]
      throw std::out_of_range("a lane that was not added");
    return *(*pages[id / page].load(std::memory_order_acquire))[id % page];
  }
  template <class Each>
  void each(Each&& visit) const {
    const std::size_t all = count.load(std::memory_order_acquire);
    for (std::size_t id = 0; id < all; ++id) visit(static_cast<int>(id), lane(id));
  }

  std::array<std::unique_ptr<Page>, most / page> owned;
  std::array<std::atomic<Page*>, most / page> pages{};
  std::atomic<std::size_t> count{0};
};

}  // namespace lockstep
