#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "core/base/memory_use.h"

namespace lockstep {

class Recorder;

/// Divides one rank's memory into parts, to show what fills it: a part holds the bytes of one kind
/// of tensor, such as "qkv", in one layer. The parts of a category add up to its bytes.
///
/// Off by default; each category is then one part. Belongs to the rank's thread.
class MemoryParts {
 public:
  using Id = std::uint32_t;

  /// The part of a category's unnamed tensors. Ids below memory_category_count are such parts.
  static Id unnamed(MemoryCategory category) { return static_cast<Id>(category); }

  MemoryParts();
  void turn_on() { on_ = true; }
  /// Returns the part of a kind, which the first call creates; null stands for the unnamed part.
  /// `kind` must have static lifetime and need no escapes in JSON. `layer` is -1 outside the
  /// blocks.
  Id find(MemoryCategory category, const char* kind, int layer);
  /// Returns the part of the same kind and layer in another category.
  Id in_category(Id part, MemoryCategory category);

  /// `total` is the sum of all parts afterwards.
  void charge(Id part, std::int64_t bytes, std::int64_t total) {
    bytes_[part] += bytes;
    if (total <= peak_total_) return;
    peak_total_ = total;
    at_peak_ = true;
  }
  void release(Id part, std::int64_t bytes) {
    if (at_peak_) leave_peak();
    bytes_[part] -= bytes;
  }
  /// The total stays the same.
  void move(Id from, Id to, std::int64_t bytes) {
    bytes_[from] -= bytes;
    bytes_[to] += bytes;
  }

  // A trace contains a metadata event with a number for each distinct state of the parts; memory
  // counters and peaks then refer to that number. Steps repeat, so there are few states
  // (core/trace/README.md).

  /// Returns the number of the current state, which is written to the trace if it is new; -1 if
  /// there are too many states, or if the parts are off. Half of the states that a trace may
  /// contain are reserved for peaks.
  int state(Recorder& trace);
  /// Writes to the trace the state at the total's peak since the last call. Then begins a new
  /// interval.
  void record_peak(Recorder& trace);
  /// Begins a new interval.
  void reset_peak();

 private:
  struct Part {
    MemoryCategory category;
    const char* kind;
    int layer;
  };
  using Bytes = std::vector<std::int64_t>;  ///< by part
  /// A part that find() has returned, so that it need not search for it again.
  struct Found {
    const char* kind = nullptr;
    int layer = 0;
    MemoryCategory category{};
    Id id = 0;
  };

  Id search(MemoryCategory category, const char* kind, int layer);

  void leave_peak();
  int number_of(const Bytes& bytes, std::size_t most_changes, Recorder& trace);
  void write_state(const Bytes& bytes, Recorder& trace);

  bool on_ = false;
  std::vector<Part> parts_;
  std::map<std::tuple<MemoryCategory, const char*, int>, Id> ids_;
  std::array<Found, 512> found_{};  ///< by a hash of kind, layer and category
  Bytes bytes_;
  // The peak of the interval. While the bytes have not shrunk since, peak_bytes_ is out of date.
  std::int64_t peak_total_ = 0;
  bool at_peak_ = true;
  Bytes peak_bytes_;
  // The content of the trace.
  std::unordered_map<std::uint64_t, int> states_;  ///< numbers by hash
  std::size_t written_parts_ = 0, written_changes_ = 0;
  Bytes written_bytes_;  ///< of the last state
};

}  // namespace lockstep
