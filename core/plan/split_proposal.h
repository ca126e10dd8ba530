#pragma once

#include <vector>

#include "core/time/time.h"

namespace lockstep {

/// The effect of another division of the blocks into stages. A step's length is simulated, from the
/// start of its first action to the end of its last.
struct SplitProposal {
  std::vector<int> split{};     ///< the run's blocks per stage
  Picoseconds step = 0;         ///< with this split
  std::vector<int> better{};    ///< the best split found; equal to `split` if none is better
  Picoseconds better_step = 0;  ///< with the better split
  Picoseconds embedding = 0;    ///< of one microbatch, forward and backward
  Picoseconds block = 0;        ///< likewise
  Picoseconds head = 0;         ///< likewise: final norm, output head and loss
};

}  // namespace lockstep
