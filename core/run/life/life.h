#pragma once

#include <functional>
#include <string>

#include "core/run/files/run_folder.h"
#include "core/run/launch/gpus.h"
#include "core/run/launch/signal_watch.h"
#include "core/run/rank/rank.h"

namespace lockstep {

struct ActiveRun;

/// The code that a lesson runs on each rank.
using RankBody = std::function<void(Rank&)>;

/// The part of a run's life that differs between ranks that are threads of this process and a rank
/// that is this process. live() calls the functions in the order in which they are declared.
class Launcher {
 public:
  virtual ~Launcher() = default;

  /// Whether rank 0 is in this process, which then reports for the run.
  virtual bool has_rank_0() const = 0;
  /// Lets the ranks agree on their GPUs and, if they are processes, on the clock and on the
  /// checkpoint that they load. Returns where each rank runs. Throws UsageError if the GPUs do not
  /// suffice, and RunError if the checkpoint was replaced in the meantime.
  virtual GpuPlan settle(ActiveRun& run) = 0;
  /// Returns rank 0's folder; other processes pass an empty one.
  virtual RunFolder agree_on_folder(RunFolder mine) = 0;
  /// Starts the run's clock, and creates the ranks of this process.
  virtual void create_ranks(ActiveRun& run, const GpuPlan& gpus) = 0;
  /// Returns the handler of this process's signals until the run has ended.
  virtual SignalWatch::Handler on_signal(ActiveRun& run, SignalWatch& watch) = 0;
  /// Describes the ranks' hosts, if there are several.
  virtual std::string hosts() const { return ""; }
  /// Runs `body` on each rank of this process. Throws the cause if the run fails.
  virtual void train(ActiveRun& run, const RankBody& body) = 0;
  /// Whether any rank was asked to stop, even if that was during the last step. Collective.
  virtual bool interrupted(ActiveRun& run) = 0;
  /// Brings the results of all ranks to rank 0 (Collected::results).
  virtual void gather_results(ActiveRun& run) = 0;
  /// Brings the traces of all ranks to rank 0's host.
  virtual void gather_traces(ActiveRun& run) = 0;
  /// Adds the operations of all ranks to rank 0's book, if they are recorded.
  virtual void gather_operations(ActiveRun& run) = 0;
  /// On rank 0, reports that the run was interrupted. Returns the process's exit code.
  virtual int report_interruption(const std::string& line) = 0;
  /// Returns rank 0's exit code on every rank.
  virtual int agree_on_code(int code) = 0;

  /// Called in a handler of the exception that has ended the run. Reports the cause, keeps the
  /// traces, and ends the process or returns its exit code. Rethrows an exception that the caller
  /// of live() reports.
  virtual int fail(ActiveRun& run) = 0;
};

/// The life of a run, from valid options to the exit code, which it returns.
int live(ActiveRun& run, Launcher& launcher, const RankBody& body, SignalWatch& watch);

}  // namespace lockstep
