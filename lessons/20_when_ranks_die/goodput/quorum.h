#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "lessons/20_when_ranks_die/goodput/account.h"

namespace lockstep {

/// Simulates data-parallel replicas that agree on a quorum before each step. When a rank fails, its
/// replica drops out, the interrupted step starts again without it, and the gradients are averaged
/// over the replicas that are left. So a step takes as long as before, but trains fewer samples. A
/// replica that is replaced joins at the next step, for which all wait while it copies the state of
/// a peer. If no replica is left, the job restarts from its last checkpoint, with all of them.
class QuorumRun {
 public:
  explicit QuorumRun(const Job& job) : job_{job} {}

  Account run(Failures failures) {
    while ((account_.steps < job_.steps || due_) && account_.finished) {
      if (due_) {
        // The checkpoint keeps all steps up to here.
        if (uninterrupted(job_.pause, account_.checkpoint, failures)) {
          due_ = false;
          safe_ = account_;
        }
      } else if (!back_.empty() && back_.front().time <= now_) {
        if (uninterrupted(job_.heal, account_.recovery, failures) && !back_.empty())
          back_.erase(back_.begin());
      } else if (back_.empty() && account_.steps % job_.interval == 0 &&
                 whole_intervals(job_, account_, now_, failures.next().time) > 0) {
        safe_ = account_;
      } else {
        train(failures);
      }
    }
    account_.total = now_;
    return account_;
  }

 private:
  struct Lost {
    Microseconds time = 0;  ///< when the replica is back
    int replica = 0;
  };

  int replica_of(int rank) const {
    return static_cast<int>(std::int64_t{rank} * job_.replicas / job_.ranks);
  }
  bool is_lost(int replica) const {
    return std::ranges::any_of(back_, [&](const Lost& lost) { return lost.replica == replica; });
  }

  /// A device that is being replaced does not fail again.
  void skip_lost(Failures& failures, Microseconds until) const {
    while (failures.next().time < until && is_lost(replica_of(failures.next().rank)))
      failures.take();
  }

  /// Trains until the next checkpoint, the next return of a replica, or the next failure.
  void train(Failures& failures) {
    std::int64_t steps =
        std::min(job_.interval - account_.steps % job_.interval, job_.steps - account_.steps);
    // A replica that is back joins between two steps.
    if (!back_.empty())
      steps = std::min(steps, (back_.front().time - now_ + job_.step - 1) / job_.step);
    skip_lost(failures, now_ + steps * job_.step);
    const bool fails = failures.next().time < now_ + steps * job_.step;
    if (fails) steps = (failures.next().time - now_) / job_.step;
    const Microseconds time = steps * job_.step;
    const Microseconds absent = time * static_cast<std::int64_t>(back_.size()) / job_.replicas;
    now_ += time;
    account_.absent += absent;
    account_.useful += time - absent;
    account_.steps += steps;
    if (fails) {
      account_.lost += failures.next().time - now_;
      now_ = failures.next().time;
      fail(failures);
    } else {
      due_ = account_.steps % job_.interval == 0 || account_.steps == job_.steps;
    }
  }

  /// Lets `time` pass and adds it to `part`, or, if a failure interrupts it, to the lost time.
  bool uninterrupted(Microseconds time, Microseconds& part, Failures& failures) {
    skip_lost(failures, now_ + time);
    const bool done = failures.next().time >= now_ + time;
    const Microseconds until = done ? now_ + time : failures.next().time;
    (done ? part : account_.lost) += until - now_;
    now_ = until;
    if (!done) fail(failures);
    return done;
  }

  /// A rank fails now. Failures during the detection are detected with it.
  void fail(Failures& failures) {
    const Microseconds detected = now_ + job_.detect;
    bool any = false;
    while (failures.next().time <= now_ || (any && failures.next().time < detected)) {
      const int replica = replica_of(failures.take().rank);
      if (is_lost(replica)) continue;
      any = true;
      if (++account_.failures >= most_failures) account_.finished = false;
      back_.push_back({detected + job_.replace, replica});
    }
    if (!any) return;
    account_.detection += detected - now_;
    now_ = detected;
    std::ranges::sort(back_, {}, &Lost::time);
    if (static_cast<int>(back_.size()) == job_.replicas) restart(failures);
  }

  /// Returns to the last checkpoint, with all replicas.
  void restart(Failures& failures) {
    account_.lost += account_.useful - safe_.useful + account_.absent - safe_.absent +
                     account_.checkpoint - safe_.checkpoint;
    account_.useful = safe_.useful;
    account_.absent = safe_.absent;
    account_.checkpoint = safe_.checkpoint;
    account_.steps = safe_.steps;
    while (true) {
      const Microseconds end = now_ + job_.restart;
      const bool again = failures.next().time < end;
      const Microseconds until = again ? failures.next().time : end;
      account_.recovery += until - now_;
      now_ = until;
      if (!again) break;
      failures.take();
      if (++account_.failures >= most_failures) account_.finished = false;
      if (!account_.finished) break;
    }
    back_.clear();
    due_ = false;
  }

  Job job_;
  std::vector<Lost> back_;  ///< the lost replicas, in the order of their return
  Account account_, safe_;  ///< now, and at the last checkpoint
  bool due_ = false;        ///< the next thing to do is a checkpoint
  Microseconds now_ = 0;
};

inline Account with_quorum(const Job& job, Failures failures) {
  return QuorumRun{job}.run(std::move(failures));
}

}  // namespace lockstep
