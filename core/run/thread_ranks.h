#pragma once

#include <memory>
#include <vector>

#include "core/comm/threads/threads_transport.h"
#include "core/run/rank.h"

namespace lockstep {

/// Where ranks go that are threads of this process: they take its GPUs in turn, if options say so.
/// Throws UsageError where there are none.
GpuPlan plan_threads(const Options& options);

/// All ranks of `fabric`, which outlives them, for use by a thread each. They are made at once, and
/// ended at once, since on GPUs they wait for one another in either.
class ThreadRanks {
 public:
  /// Where one can't be made, throws what the first of them threw.
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
