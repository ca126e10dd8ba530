#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/comm/transport/control.h"
#include "core/pipeline/schedule.h"
#include "core/plan/plan.h"
#include "core/plan/prediction.h"
#include "lessons/12_expert_parallel/routing_log.h"

namespace lockstep {

/// The routing of one layer and microbatch in an expert-parallel group: [member][expert] is the
/// number of choices that the member's capacity accepts, each of which is a row that it sends. A
/// member derives from it the rows that it receives.
using KeptByMember = std::vector<std::vector<std::int64_t>>;

/// The routing of a dry run, in which no router runs.
class GivenRouting {
 public:
  /// Adds the routing of a layer's next forward pass.
  void add(int layer, KeptByMember kept) { of_layer_[layer].push_back(std::move(kept)); }
  /// Removes and returns the routing of this forward pass, which add() has added.
  KeptByMember take(int layer) {
    std::deque<KeptByMember>& left = of_layer_.at(layer);
    KeptByMember kept = std::move(left.front());
    left.pop_front();
    return kept;
  }

 private:
  std::map<int, std::deque<KeptByMember>> of_layer_;
};

/// The log of a dry run, which is never read.
class UnreadRoutingLog : public RoutingLog {
 public:
  std::unique_ptr<RouterWatch> watch(const LayerSite&, const MixtureOfExperts&, int) override {
    return std::make_unique<Blind>();
  }
  Calls& calls(int, int, int) override { return none_; }

 private:
  struct Blind : RouterWatch {
    bool chosen(std::vector<std::int32_t>&, View, View) override { return false; }
    void routed(RoutedMicrobatch) override {}
  };
  Calls none_;
};

/// Returns how many microbatches a rank has routed so far.
inline std::size_t routings_so_far(const Plan& plan, const Place& place, RoutingLog& log) {
  return log
      .calls(replica_of(plan.mesh, place.rank), plan.layers_of(place.stages.front()).first,
             place.coordinate(Axis::tp))
      .size();
}

/// The rows that the members of a rank's expert-parallel group sent in some of the steps of a run.
class RoutedSteps {
 public:
  /// Exchanges the routings of the microbatches from `first` on over the control channel. All
  /// members call it at the same point of the program. Reads only this rank's entries of the log.
  /// A step has `microbatches`, and each stage routes them in ascending order.
  RoutedSteps(Transport& transport, const Plan& plan, const Place& place, RoutingLog& log,
              std::size_t first, int microbatches)
      : microbatches_(static_cast<std::size_t>(microbatches)) {
    std::vector<const RoutingLog::Calls*> mine;
    for (const int stage : place.stages) {
      stages_[stage] = {plan.layers_of(stage), mine.size()};
      for (int layer = stages_[stage].layers.first; layer < stages_[stage].layers.last; ++layer)
        mine.push_back(
            &log.calls(replica_of(plan.mesh, place.rank), layer, place.coordinate(Axis::tp)));
    }
    layers_ = mine.size();
    std::string text;
    for (std::size_t i = first; i < mine.front()->size(); ++i)
      for (const RoutingLog::Calls* calls : mine)
        text += fmt::format("{} ", fmt::join((*calls)[i].kept, " "));
    count_ = mine.front()->size() - first;
    kept_.assign(count_ * layers_, {});
    const std::size_t experts = count_ > 0 ? mine.front()->back().kept.size() : 0;
    for (const std::string& each : gather_texts(transport, place.group(Axis::ep), text)) {
      std::istringstream numbers{each};
      for (KeptByMember& members : kept_) {
        std::vector<std::int64_t>& kept = members.emplace_back(experts);
        for (std::int64_t& rows : kept) numbers >> rows;
      }
    }
  }

  std::size_t steps() const { return count_ / microbatches_; }

  /// Adds the routings of all steps to `given`, or those of one step if all are alike, as on the
  /// meta device: in the order of the forward passes of `actions`, the rank's part of a schedule.
  /// With `again`, a backward pass repeats the forward pass of its microbatch. Returns the number
  /// of steps added.
  int give(const std::vector<Action>& actions, bool again, GivenRouting& given) const {
    const std::size_t added = all_alike() ? 1 : steps();
    for (std::size_t step = 0; step < added; ++step) give_step(step, actions, again, given);
    return static_cast<int>(added);
  }

 private:
  bool all_alike() const {
    const std::size_t step = kept_.size() / std::max<std::size_t>(1, steps());
    for (std::size_t i = step; i < kept_.size(); ++i)
      if (kept_[i] != kept_[i % step]) return false;
    return true;
  }

  void give_step(std::size_t step, const std::vector<Action>& actions, bool again,
                 GivenRouting& given) const {
    for (const Action& action : actions) {
      if (action.op != Op::forward && !(again && action.op != Op::backward_weight)) continue;
      const std::size_t call = step * microbatches_ + static_cast<std::size_t>(action.microbatch);
      const auto& [layers, before] = stages_.at(action.stage);
      for (int i = 0; i < layers.count(); ++i)
        given.add(layers.first + i, kept_[call * layers_ + before + static_cast<std::size_t>(i)]);
    }
  }

  /// The first member gathers the texts of all members and sends them all to every member. Returns
  /// them in the order of `members`.
  static std::vector<std::string> gather_texts(Transport& transport,
                                               const std::vector<int>& members,
                                               const std::string& mine) {
    std::vector<std::string> all;
    if (transport.rank() == members.front()) {
      for (const int member : members)
        all.push_back(member == members.front() ? mine : receive_text(transport, member));
      for (const int member : members)
        for (const std::string& text : all)
          if (member != members.front()) send_text(transport, member, text);
      return all;
    }
    send_text(transport, members.front(), mine);
    for (std::size_t i = 0; i < members.size(); ++i)
      all.push_back(receive_text(transport, members.front()));
    return all;
  }

  struct Stage {
    StageLayers layers;
    std::size_t before = 0;  ///< layers of the rank's earlier stages
  };

  std::size_t microbatches_;
  std::map<int, Stage> stages_;     ///< of this rank
  std::size_t layers_ = 0;          ///< of all its stages
  std::size_t count_ = 0;           ///< microbatches of all steps
  std::vector<KeptByMember> kept_;  ///< [microbatch][layer]
};

/// Leaves bytes and peaks open until the routing is known (Predicted::at_end).
inline void await_routing(Predicted& predicted) {
  predicted.by_dry_run = true;
  const Figure unknown = Figure::not_predicted("depends on the routing");
  for (const Operation operation : all_operations) predicted.bytes_sent[operation] = unknown;
  predicted.peak_bytes.fill(unknown);
}

}  // namespace lockstep
