#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/memory_use.h"
#include "viz/read/timeline/lane.h"

namespace lockstep {

/// A part of a rank's memory: one kind of tensor in one layer, within a category.
struct MemoryPart {
  MemoryCategory category = MemoryCategory::parameters;
  NameId kind = 0;
  int layer = -1;  ///< -1 outside the blocks
};

/// The states of the parts that a rank's memory has been in (core/trace/README.md). Each one
/// is stored as its difference from the one before, so the size is that of the text.
class MemoryStates {
 public:
  struct Change {
    std::uint32_t part = 0;
    std::int64_t bytes = 0;  ///< from now on
  };

  /// Adds the next state. Returns false, and adds nothing, if `number` is not the next one, or if
  /// the state breaks the limits in core/base/memory_use.h.
  bool add(int number, const std::vector<MemoryPart>& new_parts,
           const std::vector<Change>& changes);

  int count() const { return static_cast<int>(totals_.size()); }
  bool has(int number) const { return number >= 0 && number < count(); }
  const std::vector<MemoryPart>& parts() const { return parts_; }
  /// The sum over the parts; `number` must exist.
  std::int64_t total(int number) const { return totals_[static_cast<std::size_t>(number)]; }
  /// Returns the bytes of each part. Takes time in proportion to the changes up to this state.
  std::vector<std::int64_t> bytes(int number) const;

  /// Replaces each kind by names[kind].
  void rename(const std::vector<NameId>& names);

 private:
  std::vector<MemoryPart> parts_;
  std::vector<std::uint64_t> changes_;  ///< of all states, one after another; bytes · parts + part
  std::vector<std::size_t> ends_;       ///< by state: the end of its changes
  std::vector<std::int64_t> totals_;    ///< by state
  std::vector<std::int64_t> last_;      ///< bytes of each part in the last state
};

}  // namespace lockstep
