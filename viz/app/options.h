#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "viz/data/live_server.h"

namespace lockstep::viz {

/// What the viewer was asked for.
struct ViewerOptions {
  std::vector<std::filesystem::path> paths;  ///< traces to open; empty: listen; "-": what is piped
  Endpoint listen;
  std::string token;
  int width = 1600, height = 900;
  std::optional<std::filesystem::path> screenshot;
  std::optional<std::filesystem::path> stats;
  int after_steps = 0;          ///< take the picture once every rank has ended so many steps
  bool when_all_ranks = false;  ///< or once every rank has sent spans
  bool exit_when_done = false;
  std::string steps;                         ///< "3" or "2-4": what to show of a file
  std::optional<std::pair<int, int>> hover;  ///< where the picture has the cursor
  bool listens() const { return paths.empty(); }
  bool piped() const { return paths.size() == 1 && paths.front() == "-"; }
  /// More may come while it is shown.
  bool live() const { return listens() || piped(); }
};

/// Parses the command line. Returns an exit code instead where there is nothing more to do
/// (--help). Throws UsageError.
struct ParsedOptions {
  ViewerOptions options;
  std::optional<int> exit_code;
};
ParsedOptions parse_options(int argc, char** argv);

}  // namespace lockstep::viz
