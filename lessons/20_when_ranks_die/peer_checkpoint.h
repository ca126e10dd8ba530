#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/comm/group.h"
#include "core/model/adamw.h"
#include "core/model/gpt.h"

namespace lockstep {

/// Where a stage's state lies in an array: for each parameter its value, momentum and variance.
class StateLayout {
 public:
  StateLayout(const Plan& plan, const Place& place) {
    for (const Held& held : place.held) {
      const ParameterSpec& spec = plan.parameters()[static_cast<std::size_t>(held.parameter)];
      places_[spec.order] = {3 * elements_, spec.shape.elements()};
      elements_ += spec.shape.elements();
    }
  }
  std::int64_t elements() const { return 3 * elements_; }
  bool holds(int order) const { return places_.contains(order); }
  /// Returns value, momentum and variance of one parameter, (3 · elements).
  View of(int order, View state) const {
    const auto& [offset, elements] = places_.at(order);
    return state.columns(offset, 3 * elements);
  }

 private:
  std::map<int, std::pair<std::int64_t, std::int64_t>> places_;  ///< offset and elements, by order
  std::int64_t elements_ = 0;
};

/// Calls `each` with a parameter's order and the views of its value, momentum and variance.
template <class Each>
void for_each_state(const AdamW& optimizer, const Each& each) {
  for (const AdamW::Moments& moments : optimizer.moments())
    each(moments.parameter->order, moments.parameter->value, moments.momentum, moments.variance);
}

/// Checkpoints in memory: each rank of a pipeline keeps a copy of its own stage's state, and one of
/// its neighbour's, the member before it. If a rank dies, both its state and that of its neighbour
/// exist elsewhere.
///
/// The copy is taken between two steps; it travels while the next step computes. Until every member
/// has it, the previous checkpoint stays.
class PeerCheckpoint {
 public:
  /// `members` is the pipeline's group; the group and everything in `rank` must outlive this. Two
  /// copies of both states are charged to MemoryCategory::communication.
  PeerCheckpoint(Device device, Group& members, const Plan& plan)
      : device_(device), members_(&members) {
    const int n = members.size();
    for (int i = 0; i < n; ++i) {
      ranks_.push_back(members.world_rank(i));
      layouts_.emplace_back(plan, plan.place(i));
    }
    const auto buffer = [&](int i) {
      return Tensor{device.memory,
                    {layouts_[static_cast<std::size_t>(i)].elements()},
                    MemoryCategory::communication,
                    DType::f32,
                    "checkpoint"};
    };
    me_ = members.rank();
    for (Copy& copy : copies_) copy = {.own = buffer(me_), .neighbours = buffer(before(me_))};
  }

  /// Copies the state after `step`, and starts to exchange it. The exchange before must be over.
  void begin(const AdamW& optimizer, int step) {
    Copy& next = copies_[1 - whole_];
    next.step = step;
    const StateLayout& layout = layouts_[static_cast<std::size_t>(me_)];
    device_.compute.launch(
        Span{.name = "checkpoint"}, {.bytes = 2.0 * static_cast<double>(next.own.bytes())},
        [&](const Kernels& kernels, Queue queue) {
          for_each_state(optimizer, [&](int order, View value, View momentum, View variance) {
            const View to = layout.of(order, next.own);
            const std::int64_t n = value.elements();
            for (int part = 0; const View& from : {value, momentum, variance})
              kernels.copy(queue, from.reshaped({n}), to.columns(n * part++, n));
          });
        });
    if (members_->size() == 1) return;
    works_.push_back(members_->send(next.own, after(me_)));
    works_.push_back(members_->receive(next.neighbours, before(me_)));
  }
  /// Blocks until this rank's part of the exchange is over.
  void finish() {
    for (Work& work : works_) work.wait();
    works_.clear();
  }
  /// All members have finished: the new checkpoint replaces the old one.
  void complete() {
    if (copies_[1 - whole_].step > copies_[whole_].step) whole_ = 1 - whole_;
  }
  /// The step after which the complete checkpoint was taken.
  int step() const { return copies_[whole_].step; }

  bool is_complete() const { return step() > no_step; }

  /// Detaches the checkpoint from its group, which has lost members. An exchange that is not over
  /// is dropped.
  void detach() {
    works_.clear();
    members_ = nullptr;
  }

  /// Returns the rank that can provide the state of this parameter if only `alive` ranks are left,
  /// or -1: the rank that held it, or the one after that.
  int source(int order, const std::vector<int>& alive) const {
    const int owner = owner_of(order);
    for (const int member : {owner, after(owner)})
      if (const int rank = ranks_[static_cast<std::size_t>(member)];
          std::ranges::count(alive, rank))
        return rank;
    return -1;
  }
  /// On the rank that source() returns: the state of a parameter.
  View state(int order) const {
    const int owner = owner_of(order);
    const Copy& copy = copies_[whole_];
    return layouts_[static_cast<std::size_t>(owner)].of(order,
                                                        owner == me_ ? copy.own : copy.neighbours);
  }

 private:
  static constexpr int no_step = -2;
  struct Copy {
    Tensor own, neighbours;
    int step = no_step;  ///< -1: before the first step
  };
  int owner_of(int order) const {
    const auto found = std::ranges::find_if(
        layouts_, [&](const StateLayout& layout) { return layout.holds(order); });
    return static_cast<int>(found - layouts_.begin());
  }
  int after(int member) const { return (member + 1) % static_cast<int>(ranks_.size()); }
  int before(int member) const {
    return (member + static_cast<int>(ranks_.size()) - 1) % static_cast<int>(ranks_.size());
  }

  Device device_;
  Group* members_;
  int me_ = 0;
  std::vector<int> ranks_;            ///< by member
  std::vector<StateLayout> layouts_;  ///< by member
  Copy copies_[2];
  int whole_ = 0;            ///< the complete one of both
  std::vector<Work> works_;  ///< declared last: they use the copies
};

}  // namespace lockstep
