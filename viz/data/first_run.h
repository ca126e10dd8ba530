#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::viz {

/// Several paths, split into those that belong to the first path's run and those that do not. (The
/// viewer cannot compare runs yet, and two runs on one time axis would both start at t = 0 and
/// overlap.)
struct FirstRun {
  std::vector<std::filesystem::path> paths;     ///< paths of this run, to open together
  std::vector<std::filesystem::path> left_out;  ///< paths of other runs
};

/// Groups traces by the run name in their first event. Traces from other tools (PyTorch) have no
/// name and count as one run. Throws UsageError if a path has no trace.
FirstRun first_run_of(const std::vector<std::filesystem::path>& paths);

/// Returns a message that names a path that is left out, or "" if there is none.
std::string notice_words(const FirstRun& chosen);

}  // namespace lockstep::viz
