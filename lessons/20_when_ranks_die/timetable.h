#pragma once

#include <algorithm>
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
/// so nobody has to agree on anything, and any launcher and transport will do. What a run does
/// whose ranks die must equal, bit for bit, what this one does.
class Timetable final : public Coordinator {
 public:
  Timetable(int ranks, const Faults& faults, int steps) : ranks_(ranks), faults_(faults) {
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
    const int next = rank.trace.step() + 1;
    for (int other = 0; other < ranks_ && rank.id == quorum.members.front(); ++other)
      if (faults_.returns(other, next))
        send_text(*rank.transport, other, std::to_string(rank.compute.now()));
    return Vote::commit;
  }
  void sit_out(Rank& rank, int step) override {
    if (!faults_.returns(rank.id, step + 1)) return;
    const std::string time = receive_text(*rank.transport, faults_.members(ranks_, step).front());
    if (rank.clock.is_modelled()) rank.compute.wait({std::stoll(time)}, absent);
  }
  bool is_broken(const Quorum&) override { return false; }
  std::unique_ptr<Transport> storage(Rank& rank, const Quorum&) override {
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
  int changes_ = 0;
  std::mutex mutex_;
  std::map<int, int> channels_;  ///< by rank
};

}  // namespace lockstep
