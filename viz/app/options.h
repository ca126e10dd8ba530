#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "viz/data/feed/endpoint.h"
#include "viz/data/feed/memory_limit.h"
#include "viz/data/window/panels.h"
#include "viz/data/window/settings.h"

namespace lockstep::viz {

/// The viewer's command-line options.
struct ViewerOptions {
  std::vector<std::filesystem::path> paths;  ///< traces to open; empty: listen; "-": standard input
  Endpoint listen;
  std::string token;
  MemoryLimit memory;
  int width = 1600, height = 900;
  std::optional<std::filesystem::path> screenshot;
  std::optional<std::filesystem::path> stats;
  int after_steps = 0;  ///< take the screenshot once this many steps have ended on all ranks
  bool when_all_ranks = false;  ///< or once all ranks have sent spans
  bool exit_when_done = false;
  std::string steps;                           ///< "3" or "2-4": the steps of a file to show
  std::optional<std::pair<int, int>> hover;    ///< cursor position for the screenshot
  bool critical_path = false, ghost = false;   ///< --show: turned on from the start
  std::optional<std::pair<int, int>> click;    ///< clicked before the screenshot
  std::optional<std::pair<int, int>> drag_to;  ///< where that button is released
  std::optional<Panel> panel;                  ///< for the last card
  std::string lab;                             ///< the page of the lab to open, or ""
  std::string board;  ///< the schedule on the lab's board at the start, or ""
  std::optional<Theme> theme;
  std::optional<double> scale;
  std::filesystem::path font;  ///< empty: the system's
  bool size_given = false, listen_given = false;
  bool remembers = true;                       ///< settings; see Preferences
  bool summary = false, json = false;          ///< printed without a window
  bool verbose = false;                        ///< a summary with every table
  std::vector<std::filesystem::path> exports;  ///< written without a window
  std::filesystem::path export_folder = "runs/exports";
  /// Returns whether the viewer waits for runs from the start; the lab listens only when needed.
  bool listens() const { return paths.empty() && (lab.empty() || listen_given); }
  bool piped() const { return paths.size() == 1 && paths.front() == "-"; }
  /// Returns whether more events may arrive while the viewer runs.
  bool live() const { return listens() || piped(); }
};

/// Parses the command line. Returns nothing, and prints the help, if the user asks for it. Throws
/// UsageError.
std::optional<ViewerOptions> parse_options(int argc, char** argv);

}  // namespace lockstep::viz
