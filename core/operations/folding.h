#pragma once

#include <vector>

namespace lockstep {

/// Describes which ranks of a run are equal. A cyclic shift of the ranks along an axis of their
/// mesh may move every rank to an equivalent place, with the same operations, the same peers and
/// the same links. All ranks that such shifts map to one another then have the same times, and one
/// of them, the representative, stands for all. A run is folded if its operations are recorded only
/// for representatives; the time of its replay depends on their number.
///
/// This class only computes the shifts. Other code checks that the ranks are equal: is_symmetric()
/// (core/comm/shared/folded_links.h) checks the links, and Replay checks the collectives.
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
  /// Returns the rank that stands for this one: the rank with the lowest coordinates.
  int representative(int rank) const { return seen_from(rank, rank); }
  bool keeps(int rank) const { return representative(rank) == rank; }
  /// Returns the rank to which `other` is moved by the shift that maps `rank` to its
  /// representative.
  int seen_from(int rank, int other) const;

 private:
  std::vector<Axis> axes_;
};

}  // namespace lockstep
