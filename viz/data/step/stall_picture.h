#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "viz/read/flight_recorder/stall.h"

namespace lockstep::viz {

/// A rank in the picture of a stall.
struct StallNode {
  enum class Role : std::uint8_t {
    awaited,  ///< others wait for it, and it waits for no rank
    cycle,    ///< it waits for a rank that waits for it, directly or not
    waiting,
    inside,  ///< an operation is pending that all its ranks have called
    silent,  ///< no operation is pending
    unknown  ///< its dump is missing
  };
  int rank = 0;
  int column = 0, row = 0;
  Role role = Role::silent;
  bool known = true;               ///< whether the rank's dump exists
  std::vector<std::string> lines;  ///< of the tooltip: the rank's place, last call and waits
};

/// A wait of one rank for another.
struct StallArrow {
  std::size_t from = 0, to = 0;  ///< positions in StallPicture::nodes
  std::string label;             ///< "tp all_reduce #42"
  bool to_awaited = false;
};

/// Ranks on a grid, and arrows from each rank to those that it waits for.
struct StallPicture {
  int columns = 0, rows = 0;
  std::vector<std::string> column_names, row_names;  ///< "pp0"; empty if the mesh is unknown
  std::vector<StallNode> nodes;                      ///< by rank
  std::vector<StallArrow> arrows;
  /// The number of waits without an arrow: those for ranks that only wait themselves, if the same
  /// operation also waits for an awaited rank, and those beyond the limit.
  std::size_t left_out = 0;
  std::vector<std::string> sentences;
  std::vector<std::vector<std::string>> groups;  ///< see group_table()
};

/// Arranges the ranks by their places on the mesh: a column for each stage of the pipeline (without
/// a pipeline, each index of the largest axis) and a row for each place on the other axes. If the
/// places are unknown, arranges the ranks in ascending order.
StallPicture picture_of(const flight::Stall& stall);

}  // namespace lockstep::viz
