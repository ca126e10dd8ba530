#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::viz {

/// The changes that would shorten a run's last step, according to its report
/// (viz/read/explain/counterfactuals.h).
struct Advice {
  std::string run;                     ///< its name, as in the trace
  int step = -1;                       ///< -1 if the report says nothing
  std::vector<std::string> sentences;  ///< the largest saving first
};

/// Reads the advice from a report.json. Returns none if the text is not a report.
Advice parse_advice(std::string_view report);
/// Reads the report beside these traces, if it belongs to the run named `run`.
Advice find_advice(const std::vector<std::filesystem::path>& traces, const std::string& run);

}  // namespace lockstep::viz
