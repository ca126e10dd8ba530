#include "core/run/thread_ranks.h"

#include <exception>
#include <mutex>
#include <thread>

namespace lockstep {

GpuPlan plan_threads(const Options& options) {
  std::vector<RankPlace> places;
  for (int id = 0; id < options.ranks; ++id)
    places.push_back(this_place(options.on_gpus(), /*local=*/id));
  return GpuPlan{std::move(places)};
}

std::vector<std::unique_ptr<Rank>> make_ranks(const Options& options, ThreadFabric& fabric,
                                              const GpuPlan& plan) {
  std::vector<std::unique_ptr<Rank>> ranks(static_cast<std::size_t>(options.ranks));
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int id = 0; id < options.ranks; ++id)
    threads.emplace_back([&, id] {
      try {
        ranks[static_cast<std::size_t>(id)] =
            std::make_unique<Rank>(options, fabric.endpoint(id, plan.one_for_all), plan);
      } catch (const std::exception& error) {
        fabric.fail(error.what());
        std::lock_guard lock{mutex};
        if (!first) first = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
  return ranks;
}

}  // namespace lockstep
