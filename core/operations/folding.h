#pragma once

#include <vector>

namespace lockstep {

/// Which ranks of a run are equal. If the ranks are shifted along an axis of their mesh, around its
/// end, every rank may find itself in a place like its own: with the same operations, the same
/// peers and the same links. Then all ranks that such shifts take to one another have the same
/// times, and one of them, the representative, stands for all. A run whose operations are recorded
/// only for representatives is called folded; its replay takes the time of their number.
///
/// This class only computes the shifts. Whether the ranks are equal is for others to check: of the
/// links, is_symmetric() (core/comm/shared/folded_links.h), and of collectives, Replay.
class Folding {
 public:
  /// An axis of the mesh on which ranks whose coordinates differ by a multiple of `step` are equal.
  /// A rank's coordinate is rank / stride % size; `step` divides `size`.
  struct Axis {
    int stride = 1;
    int size = 1;
    int step = 1;
  };

  /// No two ranks are equal.
  Folding() = default;
  /// Throws std::invalid_argument if a step does not divide its axis.
  explicit Folding(std::vector<Axis> axes);

  const std::vector<Axis>& axes() const { return axes_; }
  /// Whether some rank has a representative other than itself.
  bool folds() const { return !axes_.empty(); }
  /// Returns how many ranks a representative stands for.
  int times() const;
  /// Returns the rank that stands for this one: that with the lowest coordinates.
  int representative(int rank) const { return seen_from(rank, rank); }
  bool keeps(int rank) const { return representative(rank) == rank; }
  /// Returns where `other` is after the shift that takes `rank` to its representative.
  int seen_from(int rank, int other) const;

 private:
  std::vector<Axis> axes_;
};

}  // namespace lockstep
