#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "lessons/20_when_ranks_die/goodput/account.h"

namespace lockstep {

/// Simulates a job that restarts from its last checkpoint after each failure. If `in_memory` is
/// true, each rank's checkpoint is in the memory of a peer, and is written to disk beside the
/// steps. A failure during the recovery of another starts the recovery again. If it hits the peer
/// of a failed rank, their checkpoint is gone, and the job restarts from the disk.
class Restarts {
 public:
  Restarts(const Job& job, bool in_memory) : job_{job}, in_memory_{in_memory} {}

  Account run(Failures failures) {
    while (kept_ < job_.steps) {
      const std::int64_t left = job_.steps - kept_;
      const Microseconds end = now_ + left * job_.step + checkpoints_in(left) * job_.pause;
      if (failures.next().time >= end) {
        keep(left);
        now_ = end;
        break;
      }
      fail(failures.next().time);
      recover(failures);
      if (account_.failures >= most_failures) {
        account_.finished = false;
        break;
      }
    }
    account_.total = now_;
    account_.steps = kept_;
    return account_;
  }

 private:
  std::int64_t checkpoints_in(std::int64_t steps) const {
    return (steps + job_.interval - 1) / job_.interval;
  }
  Microseconds cycle() const { return job_.interval * job_.step + job_.pause; }

  void keep(std::int64_t steps) {
    kept_ += steps;
    account_.useful += steps * job_.step;
    account_.checkpoint += checkpoints_in(steps) * job_.pause;
  }

  /// Trains until a failure at `time`, and returns to the last usable checkpoint.
  void fail(Microseconds time) {
    const Microseconds trained = time - now_;
    const std::int64_t usable = std::max<Microseconds>(0, trained - job_.hidden) / cycle();
    if (in_memory_ && trained >= job_.write) {
      // One writer: while it writes a checkpoint, it skips the next ones.
      const std::int64_t every = std::max<std::int64_t>(1, (job_.write + cycle() - 1) / cycle());
      const std::int64_t written = (trained - job_.write) / (every * cycle()) * every;
      on_disk_ = kept_ + std::min(written, usable) * job_.interval;
    }
    account_.lost += trained - usable * cycle();
    keep(usable * job_.interval);
    now_ = time;
  }

  void recover(Failures& failures) {
    std::vector<int> down{failures.take().rank};
    ++account_.failures;
    bool from_disk = !in_memory_;
    while (true) {
      const Microseconds restart = in_memory_ && from_disk ? job_.restart_from_disk : job_.restart;
      const Microseconds end = now_ + job_.detect + restart;
      const bool again = failures.next().time < end;
      const Microseconds until = again ? failures.next().time : end;
      const Microseconds detected = std::min(job_.detect, until - now_);
      account_.detection += detected;
      account_.recovery += until - now_ - detected;
      now_ = until;
      if (!again) return;
      const int rank = failures.take().rank;
      ++account_.failures;
      if (account_.failures >= most_failures) return;
      const auto holds_copy = [&](int lost) {
        return (lost + 1) % job_.ranks == rank || (rank + 1) % job_.ranks == lost;
      };
      if (!from_disk && std::ranges::any_of(down, holds_copy)) {
        from_disk = true;
        return_to_disk();
      }
      if (!from_disk) down.push_back(rank);
    }
  }

  /// Undoes the steps and checkpoints since the last one on disk.
  void return_to_disk() {
    const std::int64_t undone = kept_ - on_disk_;
    const Microseconds work = undone * job_.step, pauses = checkpoints_in(undone) * job_.pause;
    account_.useful -= work;
    account_.checkpoint -= pauses;
    account_.lost += work + pauses;
    kept_ = on_disk_;
  }

  Job job_;
  bool in_memory_;
  Account account_;
  Microseconds now_ = 0;
  std::int64_t kept_ = 0, on_disk_ = 0;  ///< steps in the last usable checkpoint, and on disk
};

inline Account with_restarts(const Job& job, Failures failures) {
  return Restarts{job, false}.run(std::move(failures));
}

inline Account with_peer_memory(const Job& job, Failures failures) {
  return Restarts{job, true}.run(std::move(failures));
}

}  // namespace lockstep
