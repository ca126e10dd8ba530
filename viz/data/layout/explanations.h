#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "viz/read/timeline/pipeline_analysis.h"
#include "viz/read/timeline/step_account.h"

namespace lockstep::viz {

/// The analysis of a completed step by viz/read/timeline: where its time goes and, for a pipeline,
/// its critical path and the numbers of microbatches in flight.
struct ExplainedStep {
  int step = -1;
  StepAccount account;
  std::optional<CriticalPath> path;
  /// See microbatches_in_flight(); by rank, in timeline order.
  std::vector<std::vector<InFlight>> in_flight;
  int chunks = 0;  ///< see most_chunks()

  /// Returns the piece of a rank's step at `time`, or null.
  const StepPiece* piece_at(int rank, double time) const;
};

/// Returns whether a step's compute lanes hold at most `most` spans: by default, few enough to
/// analyse the step within a frame.
constexpr std::ptrdiff_t most_explained_spans = 50'000;
bool is_small(const Timeline& timeline, const StepWindow& step,
              std::ptrdiff_t most = most_explained_spans);

/// Returns a timeline with the data that step_account() and microbatches_in_flight() need to
/// analyse a step, for an analysis on another thread. Kernels are merged.
Timeline copy_of_step(const Timeline& timeline, const StepWindow& step);

/// The explained steps, each computed when it is first shown. A step whose analysis would take
/// longer than a frame is analysed on another thread, without a critical path, which would have too
/// many links to draw.
class Explanations {
 public:
  using Clock = std::chrono::steady_clock;
  /// Until the next call, find() spends about `budget` analysing steps, but analyses at least one.
  void update(std::chrono::milliseconds budget);
  void clear() { *this = {}; }
  /// The largest number of spans that a step may have on its compute lanes to be explained;
  /// analysing that many takes about 0.3 s.
  static constexpr std::ptrdiff_t most_spans = 500'000;
  /// Returns the explanation of a step, valid until the next update(). Null if the step has not
  /// completed or is not explained yet. Empty for a step with more than `most_spans` spans.
  const ExplainedStep* find(const Timeline& timeline, const StepWindow& step);
  /// Returns whether find() ran out of budget since update(), so that another frame is due.
  bool behind() const { return behind_; }
  /// Returns whether another thread is analysing a step.
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
  std::size_t pieces_ = 0;       ///< of all steps
  Clock::time_point until_{};
  bool patient_ = false;  ///< whether large steps are analysed on this thread, for pictures
  bool computed_ = false;
  bool behind_ = false;
};

/// Returns whether the rank is idle in this part of a step, that is, does not compute.
constexpr bool is_idle(StepPart part) {
  return part != StepPart::compute && part != StepPart::optimizer;
}
/// Names the part and, for exposed communication, the axis: "exposed wait: transfer, tp".
std::string piece_title(const StepPiece& piece, const std::string& axis);
/// Says in one sentence what the rank does or waits for in a piece.
std::string piece_sentence(const StepPiece& piece, const std::string& axis);

}  // namespace lockstep::viz
