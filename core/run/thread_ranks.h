#pragma once

#include <memory>
#include <vector>

#include "core/comm/threads/thread_fabric.h"
#include "core/run/rank.h"

namespace lockstep {

/// Places ranks that are threads of this process. If the options use GPUs, assigns them
/// round-robin, and throws UsageError if the machine has none.
GpuPlan plan_threads(const Options& options);

/// All ranks of `fabric`, one per thread; `fabric` must outlive them. They are created concurrently
/// and destroyed concurrently, because on GPUs the ranks wait for one another at both times.
class ThreadRanks {
 public:
  /// If a rank cannot be created, throws the first rank's exception.
  ThreadRanks(const Options& options, ThreadFabric& fabric, const GpuPlan& plan);
  ~ThreadRanks();
  ThreadRanks(const ThreadRanks&) = delete;
  ThreadRanks& operator=(const ThreadRanks&) = delete;

  Rank& operator[](int id) const { return *ranks_[static_cast<std::size_t>(id)]; }
  int size() const { return static_cast<int>(ranks_.size()); }
  const std::vector<std::unique_ptr<Rank>>& all() const { return ranks_; }

 private:
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace lockstep
