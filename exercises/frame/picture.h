#pragma once

#include <string>
#include <vector>

#include "core/time/time.h"

namespace lockstep {
struct Schedule;
struct Simulation;
}  // namespace lockstep

namespace lockstep::exercises {

/// Something that a rank did, and when.
struct Block {
  Picoseconds start = 0;
  Picoseconds end = 0;
  std::string label;  ///< shown at the block's beginning, as much of it as fits
};

/// One row of a picture. Blocks do not overlap, and are in order.
struct Row {
  std::string name;
  std::vector<Block> blocks;
};

/// Draws rows with time to the right. A block is its label, then '-' to its end; dots are idle
/// time. Every row has a line of its own and begins with its name.
std::string draw(const std::vector<Row>& rows, int width = 90);

/// Draws a simulated schedule, a row per rank: "F0", "B0", "W0".
std::string draw(const Schedule& schedule, const Simulation& times, int width = 90);

}  // namespace lockstep::exercises
