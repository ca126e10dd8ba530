#pragma once

#include <string>
#include <vector>

#include "viz/data/comparison.h"

namespace lockstep::viz {

/// The names of the two runs in sentences: "A (GPipe)" and "B (1F1B)".
struct ComparedNames {
  std::string a = "A", b = "B";
};
ComparedNames compared_names(const Timeline& a, int step_a, const Timeline& b, int step_b);

/// One sentence that says that times cannot be compared, or "" if they can.
std::string clock_warning(const Timeline& a, const Timeline& b);

/// A statement about the two steps. The first ones are the most important.
struct ComparisonFinding {
  std::string claim;   ///< one short sentence: "1F1B is no faster than GPipe."
  std::string reason;  ///< the numbers behind it
};
/// Explains the differences, or why there is none: step time, memory and bytes. Leaves out times if
/// the clocks differ.
std::vector<ComparisonFinding> comparison_findings(const StepMetrics& a, const StepMetrics& b,
                                                   const ComparedNames& names, bool clocks_differ);

}  // namespace lockstep::viz
