#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "core/comm/threads/thread_fabric.h"
#include "core/run/rank/rank.h"

namespace lockstep {

/// Places ranks that are threads of this process. If the options use GPUs, assigns them
/// round-robin, and throws UsageError if the machine has none.
GpuPlan plan_threads(const Options& options);

/// All ranks of `fabric`, one per thread; `fabric` must outlive them. They are created concurrently
/// and destroyed concurrently, because on GPUs the ranks wait for one another at both times.
class ThreadRanks {
 public:
  /// If a rank cannot be created, throws the first rank's exception. For `book`, see Rank.
  ThreadRanks(const Options& options, ThreadFabric& fabric, const GpuPlan& plan,
              OperationBook* book = nullptr);
  ~ThreadRanks();
  ThreadRanks(const ThreadRanks&) = delete;
  ThreadRanks& operator=(const ThreadRanks&) = delete;

  /// Runs `body` on each rank, each on a separate thread. If a body throws, the run fails
  /// (ThreadFabric::fail) with an error that names the rank, and `first_failed` is called at once
  /// with the first exception. Waits until all ranks have ended, or, after a failure, at most for
  /// `grace`, because a rank that computes or sleeps learns of the failure only when it next
  /// communicates. Returns whether all have ended; if not, the caller must end the process.
  bool run(std::function<void(Rank&)> body,
           std::function<void(std::exception_ptr)> first_failed = {},
           std::optional<std::chrono::milliseconds> grace = {});

  Rank& operator[](int id) const { return *ranks_[static_cast<std::size_t>(id)]; }
  int size() const { return static_cast<int>(ranks_.size()); }
  const std::vector<std::unique_ptr<Rank>>& all() const { return ranks_; }

 private:
  class Completion;
  void run_one(Rank& rank);

  ThreadFabric& fabric_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  // State that the threads use, including threads that run() has not waited for.
  std::function<void(Rank&)> body_;
  std::unique_ptr<Completion> completion_;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep
