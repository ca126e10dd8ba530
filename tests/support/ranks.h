#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/comm/threads_transport.h"
#include "core/run/rank.h"

namespace lockstep::testing {

/// Options for `ranks` ranks along the pipeline, on a modelled clock of `cluster`.
inline Options modelled_options(int ranks, const Cluster& cluster = {}, FixedTimes times = {}) {
  Options options;
  options.ranks = ranks;
  options.pp = ranks;
  options.clock = Clock::modelled(cluster, times);
  return options;
}

/// Calls `body` on `options.ranks` ranks that are threads. Returns the run's failure, or "".
inline std::string on_threads(const Options& options, const std::function<void(Rank&)>& body) {
  ThreadFabric fabric{options.ranks};
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int id = 0; id < options.ranks; ++id)
    ranks.push_back(std::make_unique<Rank>(options, fabric.endpoint(id)));
  std::vector<std::thread> threads;
  for (int id = 0; id < options.ranks; ++id) {
    threads.emplace_back([&, id] {
      try {
        body(*ranks[static_cast<std::size_t>(id)]);
        fabric.finish(id);
      } catch (const std::exception& error) {
        fabric.fail(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return fabric.failure();
}

}  // namespace lockstep::testing
