#include "core/run/rank/thread_ranks.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/print.h"
#include "core/run/rank/last_resort.h"

namespace lockstep {

GpuPlan plan_threads(const Options& options) {
  std::vector<RankPlace> places;
  for (int id = 0; id < options.plan.mesh.ranks(); ++id)
    places.push_back(this_place(options, /*local=*/id));
  return GpuPlan{std::move(places)};
}

namespace {

/// The time to wait for the other ranks after one could not be created.
constexpr std::chrono::milliseconds creation_grace_period{1500};

/// The ranks being created, and the first exception.
struct Creation {
  std::mutex mutex;
  std::condition_variable changed;
  int left = 0;
  std::exception_ptr first;
};

}  // namespace

// A rank that is waiting inside NCCL for a failed rank cannot be interrupted. If there is such a
// rank, ends the process.
ThreadRanks::ThreadRanks(const Options& options, ThreadFabric& fabric, const GpuPlan& plan,
                         OperationBook* book)
    : fabric_(fabric), ranks_(static_cast<std::size_t>(options.plan.mesh.ranks())) {
  Creation creation;
  creation.left = options.plan.mesh.ranks();
  std::vector<std::thread> threads;
  const auto failed = [&](std::exception_ptr error, const std::string& what) {
    {
      // Recorded before the other ranks learn of it, so that none of their errors comes first.
      const std::lock_guard lock{creation.mutex};
      if (!creation.first) creation.first = std::move(error);
    }
    fabric.fail(what);
  };
  for (int id = 0; id < options.plan.mesh.ranks(); ++id) {
    const auto create = [&, id] {
      try {
        ranks_[static_cast<std::size_t>(id)] =
            std::make_unique<Rank>(options, fabric.endpoint(id, plan.one_for_all), plan, book);
      } catch (const UsageError& error) {
        failed(std::current_exception(), error.what());
      } catch (const RunError& error) {  // names its rank
        failed(std::current_exception(), error.what());
      } catch (const std::exception& error) {
        const RunError named{fmt::format("rank {}: {}", id, words_of(error))};
        failed(std::make_exception_ptr(named), named.what());
      }
      std::lock_guard lock{creation.mutex};
      --creation.left;
      creation.changed.notify_all();
    };
    try {
      threads.emplace_back(create);
    } catch (const std::system_error& error) {
      const RunError named{fmt::format("rank {}: {}", id, words_of(error))};
      failed(std::make_exception_ptr(named), named.what());
      std::lock_guard lock{creation.mutex};
      creation.left -= options.plan.mesh.ranks() - id;
      break;
    }
  }
  std::unique_lock lock{creation.mutex};
  creation.changed.wait(lock, [&] { return creation.left == 0 || creation.first; });
  if (!creation.changed.wait_for(lock, creation_grace_period, [&] { return creation.left == 0; })) {
    print_error("the run failed: {}\n", fabric.failure());
    std::_Exit(1);
  }
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  if (creation.first) std::rethrow_exception(creation.first);
}

ThreadRanks::~ThreadRanks() {
  std::vector<std::thread> threads;
  for (std::unique_ptr<Rank>& rank : ranks_) try {
      threads.emplace_back([&rank] { rank.reset(); });
    } catch (const std::system_error&) {
      rank.reset();  // no more threads can be started
    }
  for (std::thread& thread : threads) thread.join();
}

/// Counts the ranks' threads that are still running, and records the first failure.
class ThreadRanks::Completion {
 public:
  Completion(int count, std::function<void(std::exception_ptr)> first_failed)
      : running_(count), first_failed_(std::move(first_failed)) {}

  /// Records that a rank has failed, with the exception that is being handled.
  void failed() {
    std::lock_guard lock{mutex_};
    if (failed_) return;
    failed_ = std::chrono::steady_clock::now();
    if (first_failed_) first_failed_(std::current_exception());
    changed_.notify_all();
  }
  void ended() {
    std::lock_guard lock{mutex_};
    --running_;
    changed_.notify_all();
  }
  /// See ThreadRanks::run().
  bool wait(const std::optional<std::chrono::milliseconds>& grace) {
    std::unique_lock lock{mutex_};
    const auto all_ended = [&] { return running_ == 0; };
    changed_.wait(lock, [&] { return all_ended() || (failed_ && grace); });
    return all_ended() || changed_.wait_until(lock, *failed_ + *grace, all_ended);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int running_;
  std::function<void(std::exception_ptr)> first_failed_;
  std::optional<std::chrono::steady_clock::time_point> failed_;
};

void ThreadRanks::run_one(Rank& rank) {
  struct End {
    Completion& completion;
    ~End() { completion.ended(); }  // even if the thread ends itself
  } const end{*completion_};
  // The fabric keeps only the first failure, and the other ranks see it immediately.
  const auto fail = [&](const std::string& what) {
    completion_->failed();
    fabric_.fail(what);
  };
  try {
    body_(rank);
    fabric_.finish(rank.id);
  } catch (const UsageError& error) {
    fail(error.what());
  } catch (const RunError& error) {
    fail(rank.cause(error));  // its own error, or one it received from another rank
  } catch (const std::exception& error) {
    fail(rank.cause(RunError(fmt::format("rank {}: {}", rank.id, words_of(error)))));
  }
}

bool ThreadRanks::run(std::function<void(Rank&)> body,
                      std::function<void(std::exception_ptr)> first_failed,
                      std::optional<std::chrono::milliseconds> grace) {
  body_ = std::move(body);
  completion_ = std::make_unique<Completion>(size(), std::move(first_failed));
  for (const std::unique_ptr<Rank>& rank : ranks_) try {
      threads_.emplace_back([this, each = rank.get()] { run_one(*each); });
    } catch (const std::system_error& error) {
      completion_->failed();
      fabric_.fail(fmt::format("rank {}: {}", rank->id, words_of(error)));
      completion_->ended();
    }
  if (!completion_->wait(grace)) return false;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  return true;
}

}  // namespace lockstep
