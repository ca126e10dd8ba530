#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/timeline/pipeline_analysis.h"

namespace lockstep::viz {

/// The analysis of a completed step by core/trace: why its ranks were idle, what determined its
/// length, and how many microbatches were in flight. Empty for a step without pipeline actions.
struct ExplainedStep {
  int step = -1;
  std::vector<std::vector<IdleInterval>> idle;  ///< by rank, in timeline order; each by time
  std::optional<CriticalPath> path;
  /// See microbatches_in_flight(); by rank, in timeline order.
  std::vector<std::vector<InFlight>> in_flight;
  int chunks = 0;  ///< see most_chunks()

  /// Returns the rank's idle interval at `time`, or null. `rank` is the index in the timeline.
  const IdleInterval* idle_at(std::size_t rank, double time) const;
};

/// Returns whether a step's compute lanes have at most `most` spans: by default, few enough to
/// analyse the step in a frame.
constexpr std::ptrdiff_t most_explained_spans = 50'000;
bool is_small(const Timeline& timeline, const StepWindow& step,
              std::ptrdiff_t most = most_explained_spans);

/// Returns a timeline that contains the spans of the action band during a step, for an analysis on
/// another thread.
Timeline copy_of_step(const Timeline& timeline, const StepWindow& step);

/// The explained steps, computed when they are first shown. Another thread analyses a step that
/// would take longer than a frame; its critical path, which would have too many links to be drawn,
/// is left out.
class Explanations {
 public:
  using Clock = std::chrono::steady_clock;
  /// Until the next call, find() spends about `budget` on computing, but computes at least one
  /// step.
  void update(std::chrono::milliseconds budget);
  void clear() { *this = {}; }
  /// The largest number of spans on the compute lanes of a step that is explained; the analysis
  /// takes about 0.3 s.
  static constexpr std::ptrdiff_t most_spans = 500'000;
  /// Returns the explanation of a step, valid until the next update(). Null if the step has not
  /// completed or is not explained yet. A step of more than `most_spans` spans has an empty one.
  const ExplainedStep* find(const Timeline& timeline, const StepWindow& step);
  /// Returns whether find() ran out of budget since update(), so that another frame is due.
  bool behind() const { return behind_; }
  /// Returns whether another thread analyses a step now.
  bool analyses() const { return job_ != nullptr; }

 private:
  /// An analysis on another thread. The thread outlives this object if necessary.
  struct Job {
    int step = 0;
    Timeline timeline;
    ExplainedStep result;
    std::atomic<bool> done{false};
  };

  std::unordered_map<int, ExplainedStep> steps_;
  std::shared_ptr<Job> job_;
  std::size_t large_steps_ = 0;  ///< explained by other threads
  Clock::time_point until_{};
  bool patient_ = false;  ///< whether large steps are analysed on this thread, as for a picture
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

}  // namespace lockstep::viz
