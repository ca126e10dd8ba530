#include "core/run/thread_ranks.h"

#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace lockstep {

GpuPlan plan_threads(const Options& options) {
  std::vector<RankPlace> places;
  for (int id = 0; id < options.ranks; ++id)
    places.push_back(this_place(options.on_gpus(), /*local=*/id));
  return GpuPlan{std::move(places)};
}

namespace {

/// Calls it for every rank, each on a thread.
void at_once(int ranks, const std::function<void(int)>& call) {
  std::vector<std::thread> threads;
  for (int id = 0; id < ranks; ++id) threads.emplace_back([&call, id] { call(id); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

ThreadRanks::ThreadRanks(const Options& options, ThreadFabric& fabric, const GpuPlan& plan)
    : ranks_(static_cast<std::size_t>(options.ranks)) {
  std::mutex mutex;
  std::exception_ptr first;
  at_once(size(), [&](int id) {
    try {
      ranks_[static_cast<std::size_t>(id)] =
          std::make_unique<Rank>(options, fabric.endpoint(id, plan.one_for_all), plan);
    } catch (const std::exception& error) {
      fabric.fail(error.what());
      std::lock_guard lock{mutex};
      if (!first) first = std::current_exception();
    }
  });
  if (first) std::rethrow_exception(first);
}

ThreadRanks::~ThreadRanks() {
  at_once(size(), [&](int id) { ranks_[static_cast<std::size_t>(id)].reset(); });
}

}  // namespace lockstep
