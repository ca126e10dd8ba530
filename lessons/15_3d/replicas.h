#pragma once

#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "lessons/02_data_parallel/data_parallel.h"
#include "lessons/03_zero_1/zero_1.h"
#include "lessons/04_zero_2/zero_2.h"
#include "lessons/05_zero_3/zero_3.h"
#include "lessons/15_3d/composition.h"
#include "lessons/15_3d/hybrid_sharding.h"

namespace lockstep {

/// ZeRO allocates a stage's parameters itself, in its buckets.
inline Storage storage_of(const Composition& chosen) {
  return chosen.zero > 0 ? Storage::none : Storage::own;
}

/// The dp axis of one stage: the replicas' gradients, and the optimizer of the parameters, or parts
/// of parameters, that this rank updates. A step is zero_gradients(), the forward and backward
/// passes, sum_gradients(), an update by adamw(), and share_parameters().
class Replicas {
 public:
  /// All ranks of the run must create their Replicas at the same point of the program. Everything
  /// passed by reference must outlive this object.
  Replicas(Gpt& stage, Endpoint endpoint, AxisGroups& axes, const Plan& plan, const Place& place,
           const Composition& chosen)
      : stage_(stage),
        groups_(endpoint, axes, place, chosen.sharers(place)),
        states_(states_of(stage, groups_.sharers(), axes, chosen, plan)) {
    if (Zero3* zero = std::get_if<Zero3>(&states_))
      zero->set_prefetch(/*uses=*/1, prefetch_on(plan, place));
  }

  void zero_gradients() {
    std::visit([](auto& states) { states.zero_gradients(); }, states_);
  }

  /// Call this after the last backward pass. The gradients of parts() are then complete.
  void sum_gradients() {
    std::visit([](auto& states) { states.wait(); }, states_);
    if (Group* replicas = groups_.replicas()) sum_shards(*replicas);
  }

  /// Call this after the update. Every rank then has all the parameters that it holds in full.
  void share_parameters() {
    std::visit([](auto& states) { states.gather(); }, states_);
  }

  AdamW& adamw() {
    return std::visit([](auto& states) -> AdamW& { return states.adamw(); }, states_);
  }
  /// The parameters, or parts of parameters, that this rank updates.
  const std::vector<Parameter*>& parts() {
    return std::visit(
        [](auto& states) -> auto& { return states.parts(); }, states_);
  }
  /// The parameters, or parts of parameters, that this rank holds between steps.
  const std::vector<Parameter*>& held() {
    return std::holds_alternative<Zero3>(states_) ? parts() : stage_.parameters();
  }

 private:
  /// Lesson 2, and an optimizer that updates the whole stage on every replica. If there are
  /// experts, their gradients are summed over the ranks that have the same ones (lesson 12).
  class Whole {
   public:
    Whole(Gpt& stage, Group& ranks, AxisGroups& axes, std::int64_t bucket_bytes,
          const AdamWOptions& options)
        : stage_(stage),
          adamw_(stage.parameters(), stage.device(), options),
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
    AdamW& adamw() { return adamw_; }
    const std::vector<Parameter*>& parts() const { return stage_.parameters(); }

   private:
    Gpt& stage_;
    AdamW adamw_;
    DataParallel replicas_;
    std::optional<DataParallel> experts_;
  };
  using States = std::variant<Whole, Zero1, Zero2, Zero3>;

  static States states_of(Gpt& stage, Group& ranks, AxisGroups& axes, const Composition& chosen,
                          const Plan& plan) {
    const std::int64_t bucket = chosen.bucket_bytes;
    const AdamWOptions& options = plan.optimizer;
    switch (chosen.zero) {
      case 1:
        return States{std::in_place_type<Zero1>, stage, ranks, bucket, options, plan.seed};
      case 2:
        return States{std::in_place_type<Zero2>, stage, ranks, bucket, options, plan.seed};
      case 3:
        return States{std::in_place_type<Zero3>, stage, ranks, bucket, options, plan.seed};
      default:
        return States{std::in_place_type<Whole>, stage, ranks, axes, bucket, options};
    }
  }

  /// Hybrid sharding: sums this rank's shards over the ranks that have the same.
  void sum_shards(Group& replicas) {
    std::visit(
        [&](auto& states) {
          if constexpr (!std::is_same_v<decltype(states), Whole&>) {
            std::vector<Work> sums;
            for (std::size_t b = 0; b < states.layout().buckets().size(); ++b)
              if (!states.layout().buckets()[b].frozen)
                sums.push_back(replicas.all_reduce(states.gradient_shard(b)));
            for (Work& sum : sums) sum.wait();
          }
        },
        states_);
  }

  Gpt& stage_;
  HybridGroups groups_;
  States states_;
};

}  // namespace lockstep
