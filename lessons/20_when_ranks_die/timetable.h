#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/comm/group.h"
#include "core/comm/transport/control.h"
#include "lessons/20_when_ranks_die/coordinator.h"
#include "lessons/20_when_ranks_die/faults.h"

namespace lockstep {

/// A coordinator for a run in which ranks leave and return as planned. Every rank knows the plan,
/// so nobody has to agree on anything, and any launcher and transport will do. A run
/// whose ranks die must give bitwise the same results as this one.
class Timetable final : public Coordinator {
 public:
  /// `in_step`: whether absent ranks wait in each step until a member has voted, so that all ranks
  /// end after the same step if the run is interrupted. They must be threads of this process.
  Timetable(int ranks, const Faults& faults, int steps, bool in_step)
      : ranks_(ranks), faults_(faults), in_step_(in_step) {
    for (int step = 1; step < steps; ++step) changes_ += changes(step);
  }

  void enter(Rank& rank) override {
    const int first = rank.transport->open_channels((changes_ + 1) * Group::channels_taken);
    std::lock_guard lock{mutex_};
    channels_[rank.id] = first;
  }
  Quorum quorum(Rank&, int step) override {
    Quorum quorum{.members = faults_.members(ranks_, step)};
    for (int before = 1; before <= step; ++before) quorum.number += changes(before);
    for (const int rank : quorum.members)
      if (step > 0 && !faults_.takes_part(rank, step - 1)) quorum.behind.push_back(rank);
    return quorum;
  }
  Connection connect(Rank& rank, const Quorum& quorum) override {
    std::lock_guard lock{mutex_};
    return {nullptr, *rank.transport,
            channels_.at(rank.id) + quorum.number * Group::channels_taken};
  }
  /// The first member tells ranks that return for the next step what time it is.
  Vote vote(Rank& rank, const Quorum& quorum, std::uint32_t) override {
    const int step = rank.trace.step();
    {
      std::lock_guard lock{mutex_};
      voted_ = std::max(voted_, step);
    }
    changed_.notify_all();
    for (int other = 0; other < ranks_ && rank.id == quorum.members.front(); ++other)
      if (faults_.returns_for(other, step + 1))
        send_text(*rank.transport, other, std::to_string(rank.compute.now()));
    return Vote::commit;
  }
  void sit_out(Rank& rank, int step) override {
    if (in_step_) {
      std::unique_lock lock{mutex_};
      while (
          !changed_.wait_for(lock, std::chrono::milliseconds{50}, [&] { return voted_ >= step; }))
        rank.transport->check();
    }
    if (!faults_.returns_for(rank.id, step + 1)) return;
    const std::string time = receive_text(*rank.transport, faults_.members(ranks_, step).front());
    if (rank.clock.is_modelled()) rank.compute.wait({std::stoll(time)}, absent);
  }
  bool is_broken(const Quorum&) override { return false; }
  std::unique_ptr<Transport> connect_savers(Rank& rank, const Quorum&) override {
    if (!faults_.all().empty()) return nullptr;  // absent ranks would have to take part
    auto worker = rank.transport->worker("checkpoints");
    worker->work_in_background();
    return worker;
  }
  void leave(Rank&, const std::function<void()>& forget) override { forget(); }
  void stall(Rank&) override {}

 private:
  /// Whether the members of this step are not those of the step before.
  bool changes(int step) const {
    return faults_.members(ranks_, step) != faults_.members(ranks_, step - 1);
  }

  int ranks_;
  Faults faults_;
  bool in_step_;
  int changes_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  int voted_ = -1;               ///< the last step in which a member has voted
  std::map<int, int> channels_;  ///< by rank
};

}  // namespace lockstep
