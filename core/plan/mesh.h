#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <vector>

namespace lockstep {

/// The axes of parallelism: tensor, context, data, pipeline; and axes that reuse the ranks of
/// these. Along ep, ranks divide each layer's experts; along edp, ranks hold the same experts.
/// dp_cp is dp × cp, the ranks that hold the same parameters and compute different tokens; ep and
/// edp divide it, as in Megatron and DeepSpeed.
enum class Axis { tp, cp, dp, pp, ep, edp, dp_cp };
constexpr int axis_count = 4;      ///< axes of the rank layout
constexpr int all_axes_count = 7;  ///< including those that reuse its ranks
const char* name_of(Axis axis);

/// Ranks laid out on named axes. The innermost axis, along which ranks are adjacent, is listed
/// first. The default is Megatron's tp, cp, dp, pp: this keeps tensor parallelism within a node,
/// and lets the pipeline, which sends the fewest bytes, span nodes.
class Mesh {
 public:
  /// A mesh of one rank.
  Mesh() = default;
  /// `sizes` is indexed by axis. At most one size may be 0; that size becomes `ranks` divided by
  /// the product of the other sizes. Throws UsageError if the product is not `ranks`, or if `order`
  /// is not a permutation of the axes.
  Mesh(int ranks, std::array<int, axis_count> sizes, const std::string& order = "tp,cp,dp,pp");

  /// Returns a mesh whose ranks are all on one axis of the rank layout.
  static Mesh along(Axis axis, int ranks);

  /// Returns this mesh with each layer's experts divided among `size` ranks. Throws UsageError
  /// unless `size` divides the number of ranks of dp × cp.
  Mesh with_experts(int size) const;

  /// Returns this mesh with its axes in another order, as in the constructor.
  Mesh ordered(const std::string& order) const;

  int ranks() const { return ranks_; }
  int size(Axis axis) const;
  /// Returns the coordinate of `rank` on the axis.
  int coordinate(int rank, Axis axis) const;
  /// Returns the ranks that differ from `rank` only on this axis, ordered by coordinate.
  std::vector<int> group(int rank, Axis axis) const { return group(rank, {axis}); }
  /// Returns the ranks that differ from `rank` only on these axes of the rank layout, in ascending
  /// order. ep, edp and dp_cp can only be given alone.
  std::vector<int> group(int rank, std::initializer_list<Axis> axes) const;
  /// Returns the ranks that hold the same experts as `rank`; they differ from it only on the axes
  /// within which experts are divided.
  std::vector<int> replicas_of_experts(int rank) const { return group(rank, Axis::edp); }
  /// Returns the axes that have more than one rank as JSON: {"pp":4}.
  std::string json() const;

  bool operator==(const Mesh&) const = default;

 private:
  int stride(Axis axis) const;
  /// Returns, in ascending order, the ranks that differ from `rank` only on these axes, and the
  /// index of `rank` among them.
  std::vector<int> line(int rank, const std::vector<Axis>& axes) const;
  int place_on_line(int rank, const std::vector<Axis>& axes) const;

  int ranks_ = 1;
  std::array<int, axis_count> sizes_{1, 1, 1, 1};
  std::array<Axis, axis_count> order_{Axis::tp, Axis::cp, Axis::dp, Axis::pp};
  int experts_ = 1;
};

}  // namespace lockstep
