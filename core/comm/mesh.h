#pragma once

#include <array>
#include <string>
#include <vector>

namespace lockstep {

/// The axes of parallelism: pipeline, data, context, tensor.
enum class Axis { tp, cp, dp, pp };
constexpr int axis_count = 4;
const char* name_of(Axis axis);

/// Ranks laid out on named axes. The order lists the axes from the innermost, whose members are
/// neighbours; the default is Megatron's tp, cp, dp, pp: tensor parallelism stays within a node,
/// and the pipeline, which sends least, may cross.
class Mesh {
 public:
  /// Sizes by axis; a size of 0 is what remains of `ranks` (at most one; all others that are left
  /// out are 1). Throws UsageError where the product is not `ranks`, or the order is not a
  /// permutation.
  Mesh(int ranks, std::array<int, axis_count> sizes, const std::string& order = "tp,cp,dp,pp");

  int ranks() const { return ranks_; }
  int size(Axis axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  /// This rank's place on the axis.
  int coordinate(int rank, Axis axis) const;
  /// The ranks that differ from `rank` on this axis only, in order of their place on it.
  std::vector<int> group(int rank, Axis axis) const;
  /// {"pp":4}: axes of more than one rank (all, if every one is 1).
  std::string json() const;

 private:
  int stride(Axis axis) const;

  int ranks_ = 1;
  std::array<int, axis_count> sizes_{1, 1, 1, 1};
  std::array<Axis, axis_count> order_{Axis::tp, Axis::cp, Axis::dp, Axis::pp};
};

}  // namespace lockstep
