#include "core/run/life/thread_launcher.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>

#include "core/base/error.h"
#include "core/base/print.h"
#include "core/base/printable.h"
#include "core/run/active/active_run.h"
#include "core/run/files/rank_message.h"
#include "core/run/launch/launch.h"
#include "core/run/rank/thread_ranks.h"

namespace lockstep {

namespace {

/// The time that a failed run gives its ranks to end.
constexpr std::chrono::milliseconds grace_period{1500};

class ThreadLauncher final : public Launcher {
 public:
  explicit ThreadLauncher(ActiveRun& run);

  bool has_rank_0() const override { return true; }
  GpuPlan settle(ActiveRun& run) override;
  RunFolder agree_on_folder(RunFolder mine) override { return mine; }
  void create_ranks(ActiveRun& run, const GpuPlan& gpus) override;
  SignalWatch::Handler on_signal(ActiveRun& run, SignalWatch& watch) override;
  void train(ActiveRun& run, const RankBody& body) override;
  bool interrupted(ActiveRun& run) override { return run.stop.requested(); }
  void gather_results(ActiveRun& run) override;
  void gather_traces(ActiveRun&) override {}
  void gather_operations(ActiveRun&) override {}
  int report_interruption(const std::string& line) override;
  int agree_on_code(int code) override { return code; }
  int fail(ActiveRun& run) override;

 private:
  ThreadFabric fabric_;
  std::unique_ptr<ThreadRanks> ranks_;
  bool all_ended_ = true;
  std::exception_ptr first_;  ///< the exception of the first rank that failed
  std::string operations_;    ///< all ranks' last operations when it failed
};

ThreadLauncher::ThreadLauncher(ActiveRun& run)
    : fabric_(run.options.plan.mesh.ranks(), run.options.platform.patience_seconds,
              [&run](const std::string& line) {
                print_error("{}{}\n", run.console.start_of_line(), line);
              }) {}

GpuPlan ThreadLauncher::settle(ActiveRun& run) {
  GpuPlan gpus = plan_threads(run.options);
  settle_on_gpus(gpus, run.options);
  return gpus;
}

void ThreadLauncher::create_ranks(ActiveRun& run, const GpuPlan& gpus) {
  run.options.platform.start_nanoseconds = steady_nanoseconds();
  ranks_ =
      std::make_unique<ThreadRanks>(run.options, fabric_, gpus, run.recording.operations.get());
}

SignalWatch::Handler ThreadLauncher::on_signal(ActiveRun& run, SignalWatch&) {
  return [&run](int, bool) {
    if (run.stop.request()) {
      print_error("\n{}\n", stop_notice);
      return;
    }
    // Keeps the traces written so far, without the help of the ranks.
    run.recording.keep();
    run.recording.folder.merge(run.options.plan.mesh.ranks());
    print_error("\ninterrupted{}\n", run.recording.folder.where_the_trace_is());
    std::_Exit(interrupted_code);
  };
}

void ThreadLauncher::train(ActiveRun& run, const RankBody& body) {
  const auto first_failed = [&](std::exception_ptr error) {
    first_ = std::move(error);
    for (int rank = 0; rank < ranks_->size(); ++rank)
      operations_ +=
          shown_operations(fmt::format("rank {}", rank), run.ranks.last_operations(rank));
  };
  all_ended_ = ranks_->run([&](Rank& rank) { run.train(rank, body); }, first_failed, grace_period);
  if (const std::string why = fabric_.failure(); !first_ && !why.empty())
    first_ = std::make_exception_ptr(RunError(why));
  if (first_) std::rethrow_exception(first_);
}

void ThreadLauncher::gather_results(ActiveRun& run) {
  for (const auto& rank : ranks_->all())
    run.collected.results.push_back(run.ranks.meter(*rank).results());
}

int ThreadLauncher::report_interruption(const std::string& line) {
  print_error("{}\n", line);
  return interrupted_code;
}

int ThreadLauncher::fail(ActiveRun& run) {
  if (!first_) throw;  // not a rank's failure
  int code = 1;
  run.progress.end();
  run.recording.keep();
  run.recording.folder.merge(run.options.plan.mesh.ranks());
  const std::string failure = printable(fabric_.failure());
  try {
    throw;
  } catch (const UsageError&) {
    code = 2;
    print_error("{}\n", one_line(fabric_.failure()));
  } catch (...) {
    print_error("the run failed: {}\nthe last operations of each rank, newest last:\n{}",
                with_epilogue(failure, run.recording.folder.where_the_trace_is() +
                                           (run.hooks.advise ? run.hooks.advise() : "")),
                operations_);
  }
  // A rank that keeps running can be ended only by ending the process.
  std::fflush(stdout);
  if (!all_ended_) std::_Exit(code);
  return code;
}

}  // namespace

std::unique_ptr<Launcher> thread_launcher(ActiveRun& run) {
  return std::make_unique<ThreadLauncher>(run);
}

}  // namespace lockstep
