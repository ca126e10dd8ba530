#pragma once

#include <optional>
#include <string>

#include "lessons/17_choosing/plan/search.h"

namespace lockstep {

/// A request to ./lockstep plan.
struct PlanRequest {
  std::string model;  ///< its name, or the file that it comes from
  TrainingTask task;
  SearchSpace space;
  std::size_t replays = 20;
  std::size_t top = 10;   ///< plans to print
  std::string cluster{};  ///< as --cluster names it
  bool explain = false;   ///< read the configuration aloud
  bool rerun = false;     ///< run lesson 17 for each printed plan, and print both figures
  std::string report{};   ///< a file for the result as JSON
  std::vector<std::string> defaults{};  ///< the assumptions made for missing flags, in words
};

/// Parses the flags. Returns nothing if they ask for help, which is then printed. Throws
/// UsageError.
std::optional<PlanRequest> parse_request(int argc, char** argv);

/// Fixes the sizes in a list such as "TP=8,PP=4,DP=2". Throws UsageError.
void fix(SearchSpace& space, const std::string& list);

}  // namespace lockstep
