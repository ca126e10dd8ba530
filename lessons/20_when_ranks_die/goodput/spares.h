#pragma once

#include <algorithm>
#include <deque>
#include <utility>

#include "lessons/20_when_ranks_die/goodput/account.h"

namespace lockstep {

/// Simulates a job with hot spares: a spare takes over the failed rank, with the state of its
/// peers, and the interrupted step or checkpoint starts again. A failed device is repaired and
/// becomes a spare. If no spare is left, all ranks wait for the next repair.
class Spares {
 public:
  explicit Spares(const Job& job)
      : job_{job}, ready_(static_cast<std::size_t>(job.spares), Microseconds{0}) {}

  Account run(Failures failures) {
    while (account_.steps < job_.steps && account_.finished) {
      if (account_.steps % job_.interval == 0 &&
          whole_intervals(job_, account_, now_, failures.next().time) > 0)
        continue;
      const std::int64_t left = job_.steps - account_.steps;
      const std::int64_t to_checkpoint =
          std::min(job_.interval - account_.steps % job_.interval, left);
      // All steps until the next checkpoint, or until the next failure.
      const std::int64_t steps = std::min(to_checkpoint, (failures.next().time - now_) / job_.step);
      now_ += steps * job_.step;
      account_.useful += steps * job_.step;
      account_.steps += steps;
      if (steps < to_checkpoint) {
        interrupt(failures);
        continue;
      }
      while (account_.finished && failures.next().time < now_ + job_.pause) interrupt(failures);
      if (!account_.finished) break;
      now_ += job_.pause;
      account_.checkpoint += job_.pause;
    }
    account_.total = now_;
    return account_;
  }

 private:
  /// Loses what began at now_, and replaces the ranks that fail until all have a spare. A failure
  /// during a takeover starts it again, with one more spare.
  void interrupt(Failures& failures) {
    account_.lost += failures.next().time - now_;
    now_ = failures.next().time;
    for (std::size_t needed = 1;; ++needed) {
      failures.take();
      if (++account_.failures >= most_failures) account_.finished = false;
      ready_.push_back(now_ + job_.repair);
      const Microseconds detected = now_ + job_.detect;
      const Microseconds spared = std::max(detected, ready_[needed - 1]);
      const Microseconds end = spared + job_.restart;
      const Microseconds until = std::min(end, failures.next().time);
      account_.detection += std::min(until, detected) - now_;
      account_.waiting += std::clamp(until, detected, spared) - detected;
      account_.recovery += std::max(until, spared) - spared;
      now_ = until;
      if (until < end && account_.finished) continue;
      ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(needed));
      return;
    }
  }

  Job job_;
  std::deque<Microseconds>
      ready_;  ///< when each spare is ready; sorted, as repairs take equally long
  Account account_;
  Microseconds now_ = 0;
};

inline Account with_spares(const Job& job, Failures failures) {
  return Spares{job}.run(std::move(failures));
}

}  // namespace lockstep
