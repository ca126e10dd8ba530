#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/model/builder.h"
#include "core/run/rank/thread_ranks.h"

namespace lockstep::testing {

/// Options for `ranks` pipeline ranks, on the modelled clock of `cluster`.
inline Options modelled_options(int ranks, const Cluster& cluster = {}, FixedTimes times = {}) {
  Options options;
  options.plan.set_mesh(Mesh::along(Axis::pp, ranks));
  const int layers = std::max(options.plan.model().layers, ranks);  // at least one per stage
  set_model(options.plan, &GptConfig::layers, layers);
  options.plan.modelled = {cluster, times};
  return options;
}

/// Ranks in threads, kept after the run so that their counters and traces can be read. On GPUs,
/// resolves the automatic choices of clock and collectives.
struct ThreadRun {
  explicit ThreadRun(Options options, double patience_seconds = 60, Notice notice = {})
      : fabric(options.plan.mesh.ranks(), patience_seconds, std::move(notice)),
        made(settled(options), fabric, plan) {}

  /// Calls `body` on every rank. Returns the run's error message, or "".
  std::string operator()(const std::function<void(Rank&)>& body) {
    made.run(body);
    return fabric.failure();
  }

  /// Sleeps until the run has failed; for a rank that is supposed to hang.
  void sleep_until_failure() const {
    while (fabric.failure().empty()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }

  ThreadFabric fabric;
  GpuPlan plan;
  ThreadRanks made;
  const std::vector<std::unique_ptr<Rank>>& ranks = made.all();

 private:
  const Options& settled(Options& options) {
    plan = plan_threads(options);
    settle_on_gpus(plan, options);
    return options;
  }
};

/// Calls `body` on `options.plan.mesh.ranks()` ranks in threads. Returns the run's error message,
/// or "".
inline std::string on_threads(const Options& options, const std::function<void(Rank&)>& body) {
  return ThreadRun{options}(body);
}

/// Calls `check`, which returns its errors, on every rank. Returns the run's error message and all
/// of these errors, or "".
inline std::string on_all(const Options& options, const std::function<std::string(Rank&)>& check) {
  std::mutex mutex;
  std::string wrong;
  const std::string failure = on_threads(options, [&](Rank& rank) {
    const std::string mine = check(rank);
    std::lock_guard lock{mutex};
    wrong += mine;
  });
  return failure + wrong;
}

}  // namespace lockstep::testing
