#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::viz {

/// Of several paths, those that belong to the first one's run. The viewer can't compare runs yet,
/// and two runs on one axis would overlap from t = 0.
struct FirstRun {
  std::vector<std::filesystem::path> paths;     ///< to open together: files of one run
  std::vector<std::filesystem::path> left_out;  ///< of other runs
};

/// Tells runs apart by the run's name in each trace's first event; traces of others (PyTorch's)
/// have none and belong together. Throws UsageError if a path has no trace.
FirstRun first_run_of(const std::vector<std::filesystem::path>& paths);

/// "one run at a time: runs/b is not shown"; empty if nothing is left out.
std::string notice_words(const FirstRun& chosen);

}  // namespace lockstep::viz
