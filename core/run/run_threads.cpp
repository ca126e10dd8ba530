#include "core/run/run_threads.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <thread>

#include "core/base/error.h"
#include "core/base/print.h"
#include "core/base/printable.h"
#include "core/run/active_run.h"
#include "core/run/conclusion.h"
#include "core/run/files/rank_message.h"
#include "core/run/introduction.h"
#include "core/run/last_resort.h"
#include "core/run/launch/launch.h"
#include "core/run/launch/signal_watch.h"
#include "core/run/save.h"
#include "core/run/thread_ranks.h"

namespace lockstep {

namespace {

/// How long a failed run waits for its ranks to end: a rank that is computing or sleeping learns of
/// the failure only when it next communicates.
constexpr std::chrono::milliseconds grace_period{1500};

/// Counts the ranks' threads that are still running, and records the first failure.
class Completion {
 public:
  explicit Completion(int count) : running_(count) {}

  /// Records that a rank has failed; calls `note` immediately, for the first failure only.
  void failed(const std::function<void()>& note) {
    std::lock_guard lock{mutex_};
    if (failed_) return;
    failed_ = std::chrono::steady_clock::now();
    note();
    changed_.notify_all();
  }
  void ended() {
    std::lock_guard lock{mutex_};
    --running_;
    changed_.notify_all();
  }
  /// Waits until all ranks have ended. Returns false if a rank has failed and others do not end in
  /// time.
  bool wait() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return running_ == 0 || failed_; });
    if (failed_) changed_.wait_until(lock, *failed_ + grace_period, [&] { return running_ == 0; });
    return running_ == 0;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int running_;
  std::optional<std::chrono::steady_clock::time_point> failed_;
};

}  // namespace

int run_threads(ActiveRun& run, const std::function<void(Rank&)>& body, SignalWatch& watch) {
  Options& options = run.options;
  const int count = options.run.ranks;
  ThreadFabric fabric{count, options.platform.patience_seconds, [&run](const std::string& line) {
                        print_error("{}{}\n", run.console.start_of_line(), line);
                      }};
  const GpuPlan plan = plan_threads(options);
  settle_on_gpus(plan, options);
  run.lock_save();
  run.open(RunFolder::create(options.output.trace, run.info.name));
  run.folder.begin();
  watch.set_handler([&](int, bool) {
    if (run.stop.request()) {
      print_error("\n{}\n", stop_notice);
      return;
    }
    // Keeps the traces written so far, without the help of the ranks.
    run.keep_traces();
    run.folder.merge(options.run.ranks);
    print_error("\ninterrupted{}\n", run.folder.where_the_trace_is());
    std::_Exit(130);
  });
  introduce(run.info, options, plan);
  options.platform.clock.set_start_nanoseconds(steady_nanoseconds());

  const ThreadRanks ranks{options, fabric, plan};
  std::exception_ptr refusal;  // the first failure, if it is a UsageError
  std::string operations;      // all ranks' last operations when the first failed
  Completion completion{count};
  std::vector<std::thread> threads;
  const auto fail = [&](const std::string& what, bool refused) {
    completion.failed([&] {
      if (refused) refusal = std::current_exception();
      for (int rank = 0; rank < count; ++rank)
        operations += shown_operations(fmt::format("rank {}", rank), run.last_operations_of(rank));
    });
    fabric.fail(what);
  };
  for (int id = 0; id < count; ++id) {
    const auto work = [&, id] {
      try {
        run.train(ranks[id], body);
        fabric.finish(id);
      } catch (const UsageError& error) {
        fail(error.what(), true);
      } catch (const RunError& error) {
        fail(ranks[id].cause(error), false);  // its own error, or one it received from another rank
      } catch (const std::exception& error) {
        fail(ranks[id].cause(RunError(fmt::format("rank {}: {}", id, words_of(error)))), false);
      }
      completion.ended();
    };
    try {
      threads.emplace_back(work);
    } catch (const std::system_error& error) {
      fail(fmt::format("rank {}: {}", id, words_of(error)), false);
      completion.ended();
    }
  }
  const bool all_ended = completion.wait();
  if (all_ended)
    for (std::thread& thread : threads) thread.join();
  run.progress.end();
  const std::string failure = fabric.failure();
  if (failure.empty()) {
    if (run.writer) run.writer->finish();
    if (run.stop.requested()) {
      run.folder.merge(count);
      print_error("{}{}\n", interruption(run), run.folder.where_the_trace_is());
      watch.set_handler([](int, bool) { std::_Exit(interrupted_code); });
      return interrupted_code;
    }
    for (const auto& meter : run.meters) run.results.push_back(meter->results());
    const int code = conclude(run);
    watch.set_handler([](int, bool) { std::_Exit(130); });
    return code;
  }

  run.keep_traces();
  run.folder.merge(count);
  if (refusal)
    print_error("{}\n", printable(failure));
  else
    print_error("the run failed: {}\nthe last operations of each rank, newest last:\n{}",
                with_epilogue(printable(failure), run.folder.where_the_trace_is()), operations);
  // A rank that keeps running can be ended only by ending the process.
  std::fflush(stdout);
  if (!all_ended) std::_Exit(refusal ? 2 : 1);
  watch.set_handler([](int, bool) { std::_Exit(130); });
  return refusal ? 2 : 1;
}

}  // namespace lockstep
