#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/model/checkpoint/save_lock.h"
#include "core/model/data.h"
#include "core/plan/split_proposal.h"
#include "core/plan/sum_order.h"
#include "core/run/active/hooks.h"
#include "core/run/active/rank_meter.h"
#include "core/run/active/recording.h"
#include "core/run/active/stop.h"
#include "core/run/options/lesson_info.h"
#include "core/run/options/options.h"
#include "core/run/rank/rank.h"
#include "core/run/results/process_memory.h"
#include "core/run/results/rank_results.h"
#include "core/text/console.h"

namespace lockstep {

/// The data, besides the trace, that rank 0 needs to conclude the run.
struct Collected {
  std::vector<RankResults> results;  ///< by rank; complete once they are gathered
  std::vector<SumOrder> orders;      ///< by phase
  /// By phase: Predicted::propose_split.
  std::vector<std::function<SplitProposal()>> split_proposals;
  std::map<std::string, std::string> lesson_json;  ///< the lesson's additions to the report
  std::string not_saved;  ///< why --save or --export wrote nothing; "" if it wrote
};

/// The ranks of this process while they train.
class RanksAtWork {
 public:
  explicit RanksAtWork(int ranks) : meters_(static_cast<std::size_t>(ranks)) {}

  /// Registers a rank of the run. It must outlive all calls of last_operations() for it.
  void add(ActiveRun& run, Rank& rank);
  /// Returns the rank's meter. While the rank trains, only its own thread may use it.
  RankMeter& meter(const Rank& rank) const { return *meters_[static_cast<std::size_t>(rank.id)]; }
  /// Returns the rank's last operations, as lockstep::last_operations() formats them, or "" if the
  /// rank is not registered. Any thread may call this.
  std::string last_operations(int rank) const;

 private:
  std::vector<std::unique_ptr<RankMeter>> meters_;  ///< by rank
  mutable std::mutex mutex_;
  std::map<int, const Recorder*> traces_;  ///< by rank; protected by the mutex
};

/// A run in progress: the state that the ranks of this process share. live() opens it, trains, and
/// concludes it.
struct ActiveRun {
  /// The arguments must outlive the run. `options_` may change until open() is called.
  ActiveRun(const LessonInfo& info_, Options& options_, const Corpus& corpus_, const Hooks& hooks_);

  /// Keeps other runs from writing to this run's --save, --export and --report until this
  /// object is destroyed. Only one of the run's processes calls this. Throws UsageError if another
  /// run holds a lock.
  void lock_outputs();
  /// Starts writing the run's output, including the trace, to `folder`.
  void open(RunFolder folder);
  /// Runs one rank from start to end.
  void train(Rank& rank, const std::function<void(Rank&)>& body);
  /// Returns one rank's data for `step`, divided into `microbatches`.
  Batch batch(const Rank& rank, int step, int microbatches) const;

  const LessonInfo& info;
  Options& options;
  const Corpus& corpus;
  const Hooks& hooks;
  Console console;
  Progress progress;
  Stop stop;
  Recording recording;
  /// This process's resident memory before it created ranks; only with --device cpu.
  std::optional<ResidentBytes> before_ranks;
  RanksAtWork ranks;
  Collected collected;  ///< only rank 0 accesses it
  /// Set by conclude() on rank 0, to be called once MPI is finalized: prints the report, and where
  /// the trace is.
  std::function<void()> farewell;

 private:
  std::optional<SaveLock> save_lock_, export_lock_;
  std::unique_ptr<const SaveLock> report_lock_;
};

}  // namespace lockstep
