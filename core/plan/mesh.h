#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <vector>

namespace lockstep {

/// The axes of parallelism: tensor, context, data, pipeline; and expert, which reuses the ranks of
/// other axes (see ExpertsWithin).
enum class Axis { tp, cp, dp, pp, ep };
constexpr int axis_count = 4;         ///< axes that the ranks are laid out on
constexpr int axes_with_experts = 5;  ///< and ep
const char* name_of(Axis axis);

/// Which ranks share the experts of one layer: those of dp × cp, as in Megatron and DeepSpeed, or
/// those of one tensor-parallel group.
enum class ExpertsWithin { dp_cp, tp };

/// Ranks laid out on named axes. The order lists the axes from the innermost, whose members are
/// neighbours; the default is Megatron's tp, cp, dp, pp: tensor parallelism stays within a node,
/// and the pipeline, which sends least, may cross.
class Mesh {
 public:
  /// One rank.
  Mesh() = default;
  /// Sizes by axis; a size of 0 is what remains of `ranks` (at most one; all others that are left
  /// out are 1). Throws UsageError if the product is not `ranks`, or the order is not a
  /// permutation.
  Mesh(int ranks, std::array<int, axis_count> sizes, const std::string& order = "tp,cp,dp,pp");

  /// The same with the experts of each layer divided among `size` ranks. Throws UsageError unless
  /// `size` divides the ranks that they lie within.
  Mesh with_experts(int size, ExpertsWithin within = ExpertsWithin::dp_cp) const;

  int ranks() const { return ranks_; }
  int size(Axis axis) const;
  ExpertsWithin experts_within() const { return within_; }
  /// This rank's place on the axis.
  int coordinate(int rank, Axis axis) const;
  /// The ranks that differ from `rank` on this axis only, in order of their place on it.
  std::vector<int> group(int rank, Axis axis) const { return group(rank, {axis}); }
  /// The ranks that differ from `rank` on these axes only, in ascending order: dp and cp together
  /// are the replicas of one parameter, for example. Axis::ep only on its own.
  std::vector<int> group(int rank, std::initializer_list<Axis> axes) const;
  /// The ranks that hold the same experts as `rank`: they differ from it only on the axes that
  /// experts lie within.
  std::vector<int> replicas_of_experts(int rank) const;
  /// {"pp":4}: axes of more than one rank.
  std::string json() const;

  bool operator==(const Mesh&) const = default;

 private:
  int stride(Axis axis) const;
  /// The ranks among which `rank`'s experts and their replicas lie.
  std::vector<int> expert_line(int rank) const;
  /// This rank's place in expert_line().
  int place_on_expert_line(int rank) const;

  int ranks_ = 1;
  std::array<int, axis_count> sizes_{1, 1, 1, 1};
  std::array<Axis, axis_count> order_{Axis::tp, Axis::cp, Axis::dp, Axis::pp};
  int experts_ = 1;
  ExpertsWithin within_ = ExpertsWithin::dp_cp;
};

}  // namespace lockstep
