#pragma once

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "lessons/02_data_parallel/data_parallel.h"
#include "lessons/03_zero_1/zero_1.h"
#include "lessons/04_zero_2/zero_2.h"
#include "lessons/05_zero_3/zero_3.h"
#include "lessons/12_expert_parallel/experts.h"
#include "lessons/15_3d/hybrid_sharding.h"
#include "lessons/15_3d/pipelined_zero_3.h"
#include "lessons/15_3d/three_d.h"

namespace lockstep {

/// ZeRO allocates a stage's parameters itself, in its buckets.
inline Storage storage_of(const Composition& chosen) {
  return chosen.zero > 0 ? Storage::none : Storage::own;
}

/// The dp axis of a rank's stages: the gradients of each stage's replicas, and the optimizer of the
/// parameters, or parts of parameters, that this rank updates. A step is zero_gradients(), the
/// forward and backward passes, sum_gradients(), an update by adamw(), and share_parameters().
class Replicas {
 public:
  /// All ranks of the run must create their Replicas at the same point of the program. Everything
  /// passed by reference or pointer must outlive this object. `stages` are in ascending order;
  /// ZeRO-3 takes one.
  Replicas(const std::vector<Gpt*>& stages, Endpoint endpoint, AxisGroups& axes, const Plan& plan,
           const Place& place, const Composition& chosen)
      : groups_(endpoint, axes, place, chosen.sharers(place)) {
    for (Gpt* stage : stages) {
      states_.emplace_back(
          new States{states_of(*stage, groups_.sharers(), axes, chosen, plan, place)});
      each(states_.back(), [&](auto& states) { append(parts_, states.parts()); });
      if (chosen.zero < 3) append(held_, stage->parameters());
    }
    if (chosen.zero == 3) held_ = parts_;
    adamw_.emplace(parts_, endpoint.device, plan.optimizer);
  }

  void zero_gradients() {
    for_all([](auto& states) { states.zero_gradients(); });
  }

  /// Call this after the last backward pass. The gradients of parts() are then complete.
  void sum_gradients() {
    for_all([](auto& states) { states.wait(); });
    if (Group* replicas = groups_.replicas()) sum_shards(*replicas);
  }

  /// Call this after the update. Every rank then has all the parameters that it holds in full.
  void share_parameters() {
    for_all([](auto& states) { states.gather(); });
  }

  AdamW& adamw() { return *adamw_; }
  /// The parameters, or parts of parameters, that this rank updates, stage by stage.
  const std::vector<Parameter*>& parts() const { return parts_; }
  /// The parameters, or parts of parameters, that this rank holds between steps.
  const std::vector<Parameter*>& held() const { return held_; }

 private:
  /// Lesson 2, for an optimizer that updates the whole stage on every replica. If there are
  /// experts, their gradients are summed over the ranks that have the same ones (lesson 12).
  class Whole {
   public:
    Whole(Gpt& stage, Group& ranks, AxisGroups& axes, std::int64_t bucket_bytes)
        : stage_(stage),
          replicas_(stage, units_with(stage.stored_units(), /*experts=*/false), ranks,
                    bucket_bytes) {
      if (const auto units = units_with(stage.stored_units(), /*experts=*/true); !units.empty())
        experts_.emplace(stage, units, axes[Axis::edp], bucket_bytes);
    }

    void zero_gradients() { stage_.zero_gradients(); }
    void wait() {
      replicas_.sum_gradients();
      if (experts_) experts_->sum_gradients();
    }
    void gather() {}
    const std::vector<Parameter*>& parts() const { return stage_.parameters(); }

   private:
    Gpt& stage_;
    DataParallel replicas_;
    std::optional<DataParallel> experts_;
  };
  using States = std::variant<Whole, Zero1, Zero2, Zero3, PipelinedZero3>;

  static States states_of(Gpt& stage, Group& ranks, AxisGroups& axes, const Composition& chosen,
                          const Plan& plan, const Place& place) {
    const std::int64_t bucket = chosen.bucket_bytes;
    switch (chosen.zero) {
      case 1:
        return States{std::in_place_type<Zero1>, stage, ranks, bucket, plan.seed};
      case 2:
        return States{std::in_place_type<Zero2>, stage, ranks, bucket, plan.seed};
      case 3:
        if (!backward_follows(plan, place))
          return States{std::in_place_type<PipelinedZero3>, stage, ranks, bucket, plan.seed};
        return States{std::in_place_type<Zero3>, stage, ranks, bucket, plan.seed};
      default:
        return States{std::in_place_type<Whole>, stage, ranks, axes, bucket};
    }
  }

  /// Calls visit(states) with the states of one stage, or of each stage.
  static void each(std::unique_ptr<States>& states, auto&& visit) { std::visit(visit, *states); }
  void for_all(auto&& visit) {
    for (std::unique_ptr<States>& states : states_) each(states, visit);
  }
  static void append(std::vector<Parameter*>& all, const std::vector<Parameter*>& more) {
    all.insert(all.end(), more.begin(), more.end());
  }

  /// Hybrid sharding: sums this rank's shards over the ranks that have the same.
  void sum_shards(Group& replicas) {
    std::vector<Work> sums;
    for_all([&](auto& states) {
      if constexpr (!std::is_same_v<decltype(states), Whole&>)
        for (std::size_t b = 0; b < states.layout().buckets().size(); ++b)
          if (!states.layout().buckets()[b].frozen)
            sums.push_back(replicas.all_reduce(states.gradient_shard(b)));
    });
    for (Work& sum : sums) sum.wait();
  }

  HybridGroups groups_;
  std::vector<std::unique_ptr<States>> states_;  ///< by stage
  std::vector<Parameter*> parts_, held_;
  std::optional<AdamW> adamw_;
};

}  // namespace lockstep
