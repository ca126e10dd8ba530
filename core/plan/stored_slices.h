#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/memory_use.h"
#include "core/plan/slice.h"

namespace lockstep {

/// The kinds of data that a rank stores for a tensor from step to step. The values are the same as
/// in MemoryCategory.
enum class StoredKind : std::uint8_t { parameters, gradients, optimizer };
constexpr int stored_kind_count = 3;
constexpr MemoryCategory category_of(StoredKind kind) {
  return static_cast<MemoryCategory>(kind);
}

/// Boxes of one tensor that a rank stores. If the tensors of several blocks have the same shape and
/// boxes, one StoredSlice describes them all.
struct StoredSlice {
  std::string tensor;  ///< the name; '*' stands for each of the numbers in `blocks`
  std::vector<std::pair<int, int>> blocks{};  ///< ranges of numbers, both ends included
  Shape whole;
  std::vector<Box> boxes;
  /// By StoredKind: the bytes per element, or 0 if this kind is not stored in these boxes.
  std::array<std::int64_t, stored_kind_count> bytes_per_element{};

  bool has(StoredKind kind) const { return bytes_per_element[static_cast<std::size_t>(kind)] > 0; }
  std::int64_t elements() const;
  std::int64_t bytes(StoredKind kind) const {
    return elements() * bytes_per_element[static_cast<std::size_t>(kind)];
  }
  /// Returns the names of all its tensors.
  std::vector<std::string> tensors() const;
  /// Returns whether one of its tensors has this name.
  bool is_of(std::string_view name) const;
  bool operator==(const StoredSlice&) const = default;
};

/// Returns a tensor's block, "transformer.h.12" for "transformer.h.12.ln_1.weight", or else its
/// name.
std::string module_of(std::string_view tensor);

/// The trace's counter of parameters that a rank holds in full only for a while: the bytes of each
/// module (see module_of()) from now on, or 0.
constexpr const char* whole_parameters_counter = "whole parameters";

/// Collects the slices that a rank stores, tensor by tensor.
class StoredSlices {
 public:
  /// Adds one kind of a tensor. Kinds with the same boxes share an entry if the tensor's kinds are
  /// added one after another.
  void add(const std::string& tensor, const Slice& slice, StoredKind kind,
           std::int64_t bytes_per_element);
  /// Returns one entry for each tensor and set of boxes, in the order in which they were added.
  const std::vector<StoredSlice>& all() const { return all_; }

  /// Returns the args of the trace's "slices" event: {"tensors":[{"name":"h.*.w","blocks":[[0,7]],
  /// "shape":[64,192],"boxes":[[0,0,64,96]],"bytes":{"parameters":4,"gradients":4}}]}. A box lists
  /// the first indices, then the extents. Entries of several blocks are combined. If the text would
  /// be longer than `most` bytes, the last entries are left out, and "omitted" is their number.
  std::string json(std::size_t most = std::size_t{1} << 16) const;

 private:
  std::vector<StoredSlice> all_;
};

/// A rank's slices, as read from a trace.
struct ReadSlices {
  std::vector<StoredSlice> slices;
  std::int64_t omitted = 0;  ///< entries that the rank left out
};

/// Parses the args of a "slices" event, from any source; skips invalid entries.
ReadSlices read_slices(std::string_view json);

}  // namespace lockstep
