#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/operations/run_operations.h"
#include "core/replay/critical_path.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep::viz {

/// A slider for one change of a Scenario.
struct RetimeSlider {
  std::string what;          ///< as Scenario::change() takes it: "between"; "rank" and "stage" bare
  std::string name;          ///< for the user
  bool can_be_free = false;  ///< whether its right end is "free"
  std::vector<int> numbers{};  ///< the ranks or stages to choose from
  std::size_t chosen = 0;      ///< index in `numbers`
  /// 0 changes nothing. To the right, each notch is faster than the one before; to the left,
  /// slower.
  int notch = 0;
  double exact = 0;  ///< a factor by which it is faster, instead of the notch's; 0: the notch's

  static constexpr int most_notches = 15;  ///< in each direction; the last one is for "free"
  int slowest() const { return 1 - most_notches; }
  int fastest() const { return can_be_free ? most_notches : most_notches - 1; }
  /// Returns the change as Scenario::change() takes it, such as "rank:2=faster:1.5"; "" for notch
  /// 0.
  std::string change() const;
  /// "1.5× faster", "free"; "1×" for notch 0, as recorded.
  std::string pace() const;
  /// The same without the direction: "1.5×".
  std::string factor() const;
  /// Moves the slider to a notch.
  void set_notch(int to);
  /// Moves the slider of ranks to one rank, faster by a factor above 1, and the knob to the notch
  /// that is nearest to it.
  void set_rank(int rank, double factor);
};

/// Returns the sliders that apply to a run.
std::vector<RetimeSlider> retime_sliders(const RunOperations& run);
/// Returns the changes of the sliders that were moved.
std::vector<std::string> changes_of(const std::vector<RetimeSlider>& sliders);

/// The last step of a run under a scenario, as computed by Replay and shares().
struct RetimedStep {
  Picoseconds time = 0;
  std::vector<PathShare> shares;
};

/// A share of the critical path, as recorded and as changed; 0 if the path has no such share.
struct ComparedShare {
  std::string what;
  Picoseconds recorded = 0, changed = 0;
};
/// Joins the shares of two paths, in the order of the recorded ones, followed by the new ones.
std::vector<ComparedShare> compared_shares(const RetimedStep& recorded, const RetimedStep& changed);

/// A question besides the sliders: how long a step takes under some changes.
struct StepQuestion {
  int step = -1;
  std::vector<std::string> changes{};
  bool operator==(const StepQuestion&) const = default;
};
struct StepAnswer {
  StepQuestion question;
  Picoseconds recorded = 0, changed = 0;  ///< both 0 if the run has no such step
};

/// Replays the operations of a recorded run under changes, on another thread: a large run takes
/// seconds. Every other call returns at once.
class Retiming {
 public:
  Retiming() = default;
  ~Retiming() { stop(); }
  Retiming(const Retiming&) = delete;
  Retiming& operator=(const Retiming&) = delete;

  /// Finds the operations.json beside these traces; it is read at the first ask(). `run` is the
  /// run's name in the trace, which the file must have, too.
  void find(const std::vector<std::filesystem::path>& traces, const std::string& run);
  bool found() const { return job_ != nullptr; }

  /// Asks for the last step under these changes. Of several requests that wait for the thread, only
  /// the newest is replayed.
  void ask(const std::vector<std::string>& changes);
  /// Asks for another step, too, without changing what ask() has asked for. The newest question
  /// wins.
  void ask_step(const StepQuestion& question);
  /// Returns the answer to a question; null if it is not known yet, or can't be replayed.
  const StepAnswer* answer_to(const StepQuestion& question) const;
  /// Takes over the results that the thread has finished. Call it once per frame.
  void update();
  /// Waits for the newest requests, and takes over their results. For pictures and tests.
  void wait();
  /// Returns whether more results may come, now or later.
  bool busy() const { return !shown_.answers(asked_, question_); }

  /// The thread's results, as of the last update().
  struct Results {
    std::vector<RetimeSlider> sliders;  ///< empty until the file is read
    std::size_t ranks = 0;
    int step = -1;  ///< the last
    /// Flags whose effect depended on modelled time: RunOperations::choices.
    std::vector<std::string> choices;
    RetimedStep recorded;
    std::optional<std::vector<std::string>> changes;  ///< those of `changed` or `trouble`
    RetimedStep changed;
    std::string trouble;  ///< one line: why the file or these changes can't be replayed
    bool broken = false;  ///< whether the trouble is the file's, so that no change will help
    std::int64_t replays = 0;
    std::optional<StepAnswer> answer;  ///< to the last question that was answered

    /// Returns whether no further result is to be expected.
    bool answers(const std::optional<std::vector<std::string>>& asked,
                 const std::optional<StepQuestion>& question) const {
      return broken || ((!asked || changes == asked) &&
                        (!question || (answer && answer->question == *question)));
    }
  };
  const Results& results() const { return shown_; }

 private:
  /// Shared with the thread, which outlives this object if necessary.
  struct Job;
  static void work(Job& job);
  void start();
  void stop();

  std::shared_ptr<Job> job_;
  std::optional<std::vector<std::string>> asked_;
  std::optional<StepQuestion> question_;
  Results shown_;
};

/// Says in one line why there is nothing to retime in this trace, which has no operations.json.
std::string nothing_to_retime(const RunInfo& run, bool live);

}  // namespace lockstep::viz
