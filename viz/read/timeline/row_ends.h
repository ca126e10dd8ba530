#pragma once

#include <cstddef>
#include <vector>

#include "core/time/time.h"

namespace lockstep {

/// Holds the end of the last span in each row of a lane, and finds the first row that is free at a
/// given time. This takes only logarithmic time, because a trace may have any number of overlapping
/// spans.
class RowEnds {
 public:
  void clear() { count_ = 0, least_.clear(); }
  /// Returns the index of the first row that ends by `time`, or the number of rows if none does.
  std::size_t first_free(Picoseconds time) const;
  /// Sets the end of a row, which may be a new last row.
  void set(std::size_t row, Picoseconds end);

 private:
  std::size_t leaves() const { return least_.size() / 2; }
  void grow();

  std::size_t count_ = 0;
  /// A complete binary tree: the children of node i are 2i and 2i + 1, and each node holds the
  /// earliest end below it. The leaves are the rows.
  std::vector<Picoseconds> least_;
};

}  // namespace lockstep
