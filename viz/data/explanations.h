#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/trace/pipeline_analysis.h"
#include "viz/data/words.h"

namespace lockstep::viz {

/// The analysis of a completed step by core/trace: why its ranks were idle, and what determined its
/// length. Empty for a step without pipeline actions.
struct ExplainedStep {
  std::vector<std::vector<IdleInterval>> idle;  ///< by rank, in timeline order; each by time
  std::optional<CriticalPath> path;

  /// Returns the rank's idle interval at `time`, or null. `rank` is the index in the timeline.
  const IdleInterval* idle_at(std::size_t rank, double time) const;
};

/// Returns whether a step's compute lanes have few enough spans to analyse the step in a frame.
bool is_small(const Timeline& timeline, const StepWindow& step);
constexpr std::ptrdiff_t most_explained_spans = 50'000;

/// The explained steps, computed when they are first shown.
class Explanations {
 public:
  using Clock = std::chrono::steady_clock;
  /// Until the next call, find() spends about `budget` on computing, but computes at least one
  /// step.
  void update(std::chrono::milliseconds budget);
  void clear() { *this = {}; }
  /// Returns the explanation of a step, valid until the next update(). Null if the step has not
  /// completed, has more than `most_spans` spans on its compute lanes, or if the budget is used up.
  const ExplainedStep* find(const Timeline& timeline, const StepWindow& step);
  /// Returns whether find() ran out of budget since update(), so that another frame is due.
  bool behind() const { return behind_; }

 private:
  std::unordered_map<int, ExplainedStep> steps_;
  Clock::time_point until_{};
  bool computed_ = false;
  bool behind_ = false;
};

/// Returns the cause with the largest share of an idle interval.
IdleCause main_cause(const IdleInterval& idle);
/// Explains an idle interval in one sentence, for its main cause.
std::string idle_sentence(const IdleInterval& idle);
/// Lists the causes of an idle interval with their times, the largest first: "warm-up 3.00 ms,
/// messages 20.0 µs".
std::string cause_words(const IdleTimes& causes);

/// Replaces a finding on a compute lane by the rank's idle interval at `time`, if there is one and
/// no work was found there. `rank` is the index in the timeline.
void explain_idle(Finding& finding, const ExplainedStep& step, std::size_t rank, double time);

}  // namespace lockstep::viz
