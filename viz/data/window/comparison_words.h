#pragma once

#include <string>
#include <vector>

#include "viz/data/window/comparison.h"
#include "viz/read/explain/sentence.h"

namespace lockstep::viz {

/// The names of the two runs in sentences: "A (GPipe)" and "B (1F1B)".
struct ComparedNames {
  std::string a = "A", b = "B";
};
ComparedNames compared_names(const Timeline& a, int step_a, const Timeline& b, int step_b);

/// One sentence that says that times cannot be compared, or "" if they can.
std::string clock_warning(const Timeline& a, const Timeline& b);

/// Describes the differences between the two steps, or says that there are none: step time and its
/// parts, weight gradients, memory and bytes. The values have the same names as the numbers in the
/// text, and are in seconds and bytes. Leaves out times if the clocks differ.
std::vector<Sentence> comparison_sentences(const StepMetrics& a, const StepMetrics& b,
                                           const ComparedNames& names, bool clocks_differ);

/// Returns the sentences as JSON, for tests: a list of {"claim", "text", "values"}.
std::string sentences_json(const std::vector<Sentence>& sentences);

}  // namespace lockstep::viz
