#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <thread>

#include "core/comm/threads/thread_fabric.h"
#include "core/model/checkpoint/checkpoint.h"
#include "core/model/checkpoint/saved_tensors.h"
#include "core/model/checkpoint/sharded_checkpoint.h"
#include "tests/model/fixture.h"
#include "tests/support/random_plans.h"
#include "tests/support/stored_parts.h"

namespace lockstep::test {

/// Calls `body` on `count` ranks in threads. Returns the run's error message, or "".
inline std::string on_ranks(int count, const std::function<void(Transport&)>& body) {
  ThreadFabric fabric{count};
  std::vector<std::unique_ptr<Transport>> endpoints;
  for (int rank = 0; rank < count; ++rank) endpoints.push_back(fabric.endpoint(rank));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(*endpoints[static_cast<std::size_t>(rank)]);
        fabric.finish(rank);
      } catch (const std::exception& error) {
        fabric.fail(error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  return fabric.failure();
}

/// The whole model's parameters and moments, all different.
struct WholeState {
  WholeState(const Plan& plan, std::uint64_t seed) {
    for (const ParameterSpec& spec : plan.parameters()) {
      const auto random = [&](std::uint64_t salt) {
        ParameterSpec any = spec;
        any.deviation = 1;
        return testing::whole_values(any, 10 * seed + salt);
      };
      values[spec.order] = {random(0), random(1), random(2)};
      for (float& each : values[spec.order][2]) each = std::abs(each);  // variances
    }
  }
  std::map<int, std::array<std::vector<float>, 3>> values;  ///< by order: value, momentum, variance
};

/// The parts that one rank of a plan stores: its slices or, with ZeRO, its shards of them.
struct RankState {
  RankState(const Plan& plan_, int rank, bool zero) : plan(plan_) {
    for (const StoredParameter& stored : testing::stored_by(plan, rank, zero)) {
      ParameterSpec spec =
          *std::ranges::find(plan.parameters(), stored.order, &ParameterSpec::order);
      pointers.push_back(&parts.emplace_back(spec, stored.slice, one.device(), 99));
    }
    optimizer.emplace(pointers, one.device());
  }
  void set(const WholeState& whole) {
    for (const auto& [order, part, k, view] : views())
      std::ranges::copy(testing::cut_of(whole.values.at(order)[k], part->slice), view.f32());
  }
  /// Returns whether all values, and all moments, equal those of the whole state.
  bool is(const WholeState& whole) const {
    for (const auto& [order, part, k, view] : views())
      if (!same_bits(floats(view), testing::cut_of(whole.values.at(order)[k], part->slice)))
        return false;
    return true;
  }
  TrainingState state(std::int64_t step) const {
    return {one.device(), pointers, *optimizer, step};
  }

  struct Named {
    int order;
    const Parameter* part;
    std::size_t k;  ///< index in WholeState
    View view;
  };
  std::vector<Named> views() const {
    std::vector<Named> all;
    for (const Parameter* part : pointers) all.push_back({part->order, part, 0, part->value});
    for (const auto& [part, momentum, variance] : optimizer->moments()) {
      all.push_back({part->order, part, 1, momentum});
      all.push_back({part->order, part, 2, variance});
    }
    return all;
  }

  const Plan& plan;
  mutable OneDevice one;
  std::deque<Parameter> parts;
  std::vector<Parameter*> pointers;
  std::optional<AdamW> optimizer;
};

/// A plan, and whether its ranks shard their parts along dp as ZeRO does.
struct Layout {
  Plan plan;
  bool zero = false;
};

/// All ranks save `whole`. Returns the run's error message, or the reason why it did not save, or
/// "".
inline std::string save_sharded(const Layout& layout, const std::string& path,
                                const WholeState& whole, std::int64_t step = 20,
                                const std::function<void(int, RankState&)>& change = {}) {
  std::string why;
  const std::string failure = on_ranks(layout.plan.mesh.ranks(), [&](Transport& ranks) {
    RankState mine{layout.plan, ranks.rank(), layout.zero};
    mine.set(whole);
    mine.optimizer->resume(step - 3);
    if (change) change(ranks.rank(), mine);
    const std::string unsound = save_checkpoint(ranks, path, layout.plan, mine.state(step));
    if (ranks.rank() == 0) why = unsound;
  });
  return failure + why;
}

/// Returns whether each rank of `layout` loads its part of what save_sharded() saved of `whole`,
/// and the step counts.
inline bool loads(const Layout& layout, const std::string& path, const WholeState& whole) {
  check_checkpoint_fits(path, layout.plan);
  bool same = trained_steps(path, layout.plan) == 20;
  for (int rank = 0; rank < layout.plan.mesh.ranks(); ++rank) {
    RankState mine{layout.plan, rank, layout.zero};
    // A shard of ZeRO can consist of padding alone.
    const bool holds_any = std::ranges::any_of(
        mine.pointers, [](const Parameter* part) { return part->slice.elements() > 0; });
    same = same && mine.is(whole) == !holds_any;
    load_checkpoint(path, layout.plan, mine.one.device(), mine.pointers);
    load_moments(path, *mine.optimizer);
    same = same && mine.is(whole) && mine.optimizer->steps() == 17;
  }
  return same;
}

}  // namespace lockstep::test
