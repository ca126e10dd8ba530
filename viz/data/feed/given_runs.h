#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::viz {

/// The paths that the user gave, divided into runs. The viewer shows one run, or compares two.
struct GivenRuns {
  /// The first run's paths, to open together; then the paths of the run to compare it with, which
  /// is empty if there is none.
  std::vector<std::filesystem::path> a, b;
  std::vector<std::filesystem::path> left_out;  ///< paths of further runs
};

/// Divides traces by the run name in their first event. Files of other tools (PyTorch) have no name
/// and count as one run, but each folder of them is a run. A path that is given twice counts as two
/// runs, so that two steps of one run can be compared. Throws UsageError if a path has no trace.
GivenRuns divide_into_runs(const std::vector<std::filesystem::path>& paths);

/// Returns a message that names a path that is left out, or "" if there is none.
std::string notice_words(const GivenRuns& given);

}  // namespace lockstep::viz
