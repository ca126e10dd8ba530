#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// The kind of claim that a sentence about a step makes. Each claim has a proof of the same name in
/// tests/explain, which recomputes the sentence's values from the trace, or by running the program
/// again with the change; a claim without a proof fails the tests.
enum class Claim : std::uint8_t {
  // Counterfactuals: how long a step would take if one thing were different (counterfactuals.h).
  rank_at_pace,
  ranks_at_pace,
  stage_at_pace,
  stages_at_pace,
  free_axis,
  free_links,
  no_latency,
  alternative_run,
  // Differences between two steps (viz/data/window/comparison_words.h).
  step_times,
  changed_parts,
  changed_rank,
  weight_gradients,
  peak_memory,
  bytes_sent,
};
constexpr int claim_count = 14;
/// Returns the claim's name, such as "rank_at_pace".
const char* name_of(Claim claim);

/// A sentence, and the values that it states: times in seconds, sizes in bytes, and numbers.
struct Sentence {
  Claim claim;
  std::string text;
  std::vector<std::pair<std::string, double>> values{};
};

}  // namespace lockstep
