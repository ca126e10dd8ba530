#include "core/run/thread_ranks.h"

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
#include "core/run/last_resort.h"

namespace lockstep {

GpuPlan plan_threads(const Options& options) {
  std::vector<RankPlace> places;
  for (int id = 0; id < options.run.ranks; ++id)
    places.push_back(this_place(options, /*local=*/id));
  return GpuPlan{std::move(places)};
}

namespace {

/// How long to wait for the other ranks after one could not be created.
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
ThreadRanks::ThreadRanks(const Options& options, ThreadFabric& fabric, const GpuPlan& plan)
    : ranks_(static_cast<std::size_t>(options.run.ranks)) {
  Creation creation;
  creation.left = options.run.ranks;
  std::vector<std::thread> threads;
  const auto failed = [&](std::exception_ptr error, const std::string& what) {
    {
      // Before the others learn of it, so that none of their errors comes first.
      const std::lock_guard lock{creation.mutex};
      if (!creation.first) creation.first = std::move(error);
    }
    fabric.fail(what);
  };
  for (int id = 0; id < options.run.ranks; ++id) {
    const auto create = [&, id] {
      try {
        ranks_[static_cast<std::size_t>(id)] =
            std::make_unique<Rank>(options, fabric.endpoint(id, plan.one_for_all), plan);
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
      creation.left -= options.run.ranks - id;
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

}  // namespace lockstep
