#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/category.h"
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
  std::string label;  ///< as much of it as fits is shown at the block's beginning
  // For the viewer; a block that is not an action of a pipeline leaves these out.
  Category category = Category::kernel;
  int stage = -1;
  int microbatch = -1;
};

/// One row of a picture. Blocks do not overlap, and are in order.
struct Row {
  std::string name;
  std::vector<Block> blocks;
  int rank = 0;
  bool sends = false;  ///< whether the blocks are messages, rather than what the rank computed
};

/// Rows, and the text that shows them in a terminal; or only a text, such as a table.
struct Picture {
  Picture() = default;
  Picture(std::string text_) : text(std::move(text_)) {}
  Picture(std::string text_, std::vector<Row> rows_)
      : text(std::move(text_)), rows(std::move(rows_)) {}
  operator const std::string&() const { return text; }

  std::string text;
  std::vector<Row> rows;
};

/// Draws rows with time to the right. A block is its label, then '-' to its end; dots are idle
/// time. Every row has a line of its own and begins with its name.
Picture draw(const std::vector<Row>& rows, int width = 90);

/// Draws a simulated schedule, one row per rank: "F0", "B0", "W0".
Picture draw(const Schedule& schedule, const Simulation& times, int width = 90);

/// Writes the rows as the trace of a run, which the viewer can show: `folder`/rank<r>.json. Does
/// nothing if there are none. Throws std::runtime_error if a file can't be written.
void write_trace(const Picture& picture, const std::string& name,
                 const std::filesystem::path& folder);

}  // namespace lockstep::exercises
