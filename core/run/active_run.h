#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/model/checkpoint/save_lock.h"
#include "core/model/data.h"
#include "core/plan/sum_order.h"
#include "core/run/files/run_folder.h"
#include "core/run/options/lesson_info.h"
#include "core/run/options/options.h"
#include "core/run/rank.h"
#include "core/run/rank_meter.h"
#include "core/run/report/console.h"
#include "core/run/report/process_memory.h"
#include "core/run/report/rank_results.h"
#include "core/run/stop.h"
#include "core/trace/writer.h"

namespace lockstep {

/// A run in progress: the state that the ranks of this process share. run_threads() and
/// run_mpi_process() first open it, and then call train() for each rank, on the rank's own thread.
struct ActiveRun {
  /// `info_`, `options_` and `corpus_` must outlive the run. `options_` may change until open() is
  /// called.
  ActiveRun(const LessonInfo& info_, Options& options_, const Corpus& corpus_);

  /// Keeps other runs from writing to this run's --save and --export until this object is
  /// destroyed. Only one of the run's processes calls this. Throws UsageError if another run holds
  /// the lock.
  void lock_save();
  /// Starts writing the run's output, including the trace, to `folder_`.
  void open(RunFolder folder_);
  /// Runs one rank from start to end. The rank must outlive all calls of last_operations_of() for
  /// it.
  void train(Rank& rank, const std::function<void(Rank&)>& body);
  /// Warns, once per run, that the trace can't be written; the run continues. Any thread may call
  /// this.
  void warn_of_trace(const std::string& why);
  /// Finishes the traces of a run that has already failed, and writes whatever can still be
  /// written.
  void keep_traces(double patience_seconds = TraceWriter::in_a_hurry) noexcept;

  /// Returns the rank's meter, which train() has created.
  RankMeter& meter(const Rank& rank) const { return *meters[static_cast<std::size_t>(rank.id)]; }
  /// Returns one rank's data for `step`, divided into `microbatches`.
  Batch batch(const Rank& rank, int step, int microbatches) const;
  /// Returns the rank's last operations, as last_operations() formats them. Any thread may call
  /// this.
  std::string last_operations_of(int rank) const;

  const LessonInfo& info;
  Options& options;
  const Corpus& corpus;
  Console console;
  Progress progress;
  Stop stop;
  bool opened = false;
  RunFolder folder;
  std::unique_ptr<TraceWriter> writer;    ///< null without a trace
  std::optional<ResidentBytes> program;   ///< before the ranks existed; only with --device cpu
  std::int64_t clock_uncertainty_ns = 0;  ///< of this process's clock relative to rank 0's

  std::vector<std::unique_ptr<RankMeter>> meters;  ///< by rank; each rank accesses only its own
  std::vector<RankResults> results;                ///< by rank; complete on rank 0 at the end
  // Only rank 0 accesses these.
  std::vector<SumOrder> orders;  ///< by phase
  /// By phase: Predicted::propose_split.
  std::vector<std::function<SplitProposal()>> split_proposals;
  std::map<std::string, std::string> lesson_json;  ///< the lesson's additions to the report
  std::function<std::string()> difference;         ///< Lesson::compare; may be unset
  std::string not_saved;  ///< why --save or --export has written nothing, if so

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> warned_of_trace_{false};
  std::map<int, const Recorder*> traces_;  ///< by rank; protected by the mutex
  std::optional<SaveLock> save_lock_, export_lock_;
};

}  // namespace lockstep
