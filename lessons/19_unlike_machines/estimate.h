#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "lessons/15_3d/prediction.h"
#include "lessons/19_unlike_machines/foresee.h"

namespace lockstep {

/// Estimates of steps: cheap enough for a search to compare thousands of divisions. An estimate
/// simulates the pipelines of all replicas. Once all replicas have finished a stage, it adds the
/// ring that sums the stage's gradients. It ignores the update, and that buckets of gradients
/// overlap with the backward pass.
class StepEstimate {
 public:
  StepEstimate(const Plan& plan, const Composition& chosen) : plan_(plan), chosen_(chosen) {
    for (const int first : plan.mesh.group(0, Axis::dp)) {
      const PartTimesByStage parts = part_times(plan, plan.batch.microbatches, first);
      for (int stage = 0; stage < plan.stages(); ++stage)
        parts_of_rank_[plan.rank_holding(stage, first)] = parts[static_cast<std::size_t>(stage)];
    }
    gradients_.resize(static_cast<std::size_t>(plan.model().layers) + 2);
    for (const ParameterSpec& spec : plan_.parameters())
      gradients_[static_cast<std::size_t>(spec.unit())] +=
          spec.shape.elements() * static_cast<std::int64_t>(size_of(spec.dtype));
  }

  /// Chooses the ranks of the stages: those of this plan.
  void place(const Plan& placed) {
    parts_.clear();
    for (const int first : placed.mesh.group(0, Axis::dp)) {
      PartTimesByStage& parts = parts_.emplace_back();
      for (int stage = 0; stage < placed.stages(); ++stage)
        parts.push_back(parts_of_rank_.at(placed.rank_holding(stage, first)));
    }
  }

  /// Returns the split that balances the stages of each replica's pipeline.
  std::vector<std::vector<int>> balanced_splits() const {
    std::vector<std::vector<int>> splits;
    for (const PartTimesByStage& parts : parts_) splits.push_back(balanced_split(parts));
    return splits;
  }

  /// Returns shares in proportion to the speed of the replicas' slowest stages, at least one each.
  std::vector<int> shares_for(const std::vector<int>& split) const {
    std::vector<double> speed;
    for (const PartTimesByStage& parts : parts_) {
      Picoseconds slowest = 1;
      for (const StageTimes& stage : stages_of(parts, split))
        slowest = std::max(slowest, stage.forward + stage.backward);
      speed.push_back(1 / static_cast<double>(slowest));
    }
    std::vector<int> shares(speed.size(), 1);
    const int all = plan_.batch.microbatches * static_cast<int>(speed.size());
    for (int i = static_cast<int>(speed.size()); i < all; ++i) {
      // The next microbatch goes to the replica that would be done with it first.
      const auto done = [&](std::size_t replica) { return (shares[replica] + 1) / speed[replica]; };
      std::size_t first = 0;
      for (std::size_t replica = 1; replica < speed.size(); ++replica)
        if (done(replica) < done(first)) first = replica;
      ++shares[first];
    }
    return shares;
  }

  /// Returns the estimate of a division with the chosen placement. Divisions that do not fit in
  /// memory have larger estimates than others, in the order of the bytes that are missing.
  Picoseconds step(const WorkDivision& division) {
    const Plan plan = divided(plan_, division);
    if (const std::int64_t bytes = excess(plan); bytes > 0) return unfit + bytes;
    PipelineTimes times;
    times.boundary_bytes = plan.boundary(plan.batch.microbatches).bytes();
    times.cluster = plan.modelled->cluster;
    std::vector<Picoseconds> ends(parts_.front().size());  // of the last actions, by stage
    for (std::size_t replica = 0; replica < parts_.size(); ++replica) {
      const Schedule schedule = schedule_of(plan, static_cast<int>(replica));
      times.stages = stages_of(parts_[replica], division.split);
      times.world_ranks = plan.mesh.group(plan.mesh.group(0, Axis::dp)[replica], Axis::pp);
      simulated_ += schedule.action_count();
      const Simulation simulated = simulate(schedule, times);
      for (std::size_t stage = 0; stage < ends.size(); ++stage)
        ends[stage] = std::max(
            ends[stage],
            simulated.actions[static_cast<std::size_t>(division.placement[stage])].back().end);
    }
    Picoseconds last = 0;
    for (std::size_t stage = 0; stage < ends.size(); ++stage)
      last = std::max(last, ends[stage] + sum_of_gradients(plan, static_cast<int>(stage)));
    return last;
  }

  /// Returns whether a division with this estimate fits in memory.
  static bool is_fit(Picoseconds step) { return step < unfit; }
  /// Returns whether so many actions have been simulated that the search should end.
  bool is_over() const { return simulated_ > most_actions; }

 private:
  /// Returns the time in which a ring sums the gradients of a stage's replicas.
  Picoseconds sum_of_gradients(const Plan& plan, int stage) const {
    const std::vector<int> ring = plan.mesh.group(plan.rank_holding(stage), Axis::dp);
    const auto n = static_cast<std::int64_t>(ring.size());
    if (n == 1) return 0;
    const StageLayers layers = plan.layers_of(stage);
    std::int64_t bytes = 0;
    for (std::size_t unit = 0; unit < gradients_.size(); ++unit)
      if (layers.runs(static_cast<int>(unit), plan.model())) bytes += gradients_[unit];
    Picoseconds slowest = 0;
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const int from = ring[i], to = ring[(i + 1) % ring.size()];
      const Cluster& cluster = plan.modelled->cluster;
      slowest = std::max(
          slowest, cluster.latency(from, to, bytes / n) + cluster.transfer(from, to, bytes / n));
    }
    return 2 * (n - 1) * slowest;
  }

  /// Returns the bytes that the ranks need beyond their devices' memories. Peaks are those of dry
  /// runs, each of which depends only on the rank's stage, its blocks and its microbatches.
  std::int64_t excess(const Plan& plan) {
    const Cluster& cluster = plan.modelled->cluster;
    const auto limited = [](const RankGroup& group) { return group.memory.has_value(); };
    if (!cluster.memory && std::ranges::none_of(cluster.groups, limited)) return 0;
    std::int64_t bytes = 0;
    for (const int first : plan.mesh.group(0, Axis::dp))
      for (int stage = 0; stage < plan.stages(); ++stage) {
        const int rank = plan.rank_holding(stage, first);
        const auto memory = memory_of(cluster, rank);
        if (memory) bytes += std::max<std::int64_t>(0, peak_of(plan, rank, stage) - *memory);
      }
    return bytes;
  }

  std::int64_t peak_of(const Plan& plan, int rank, int stage) {
    const int replica = plan.mesh.coordinate(rank, Axis::dp);
    const auto [found, is_new] =
        peaks_.try_emplace({stage, plan.split[static_cast<std::size_t>(stage)],
                            plan.microbatches_of(replica, plan.batch.microbatches)});
    if (is_new)
      found->second =
          dry_run_mesh(plan, plan.place(rank), schedule_of(plan, replica), chosen_).peak_total;
    return found->second;
  }

  static constexpr Picoseconds unfit = Picoseconds{1} << 60;  ///< more than any simulated time
  static constexpr std::size_t most_actions = 20'000'000;     ///< takes a few seconds

  Plan plan_;
  Composition chosen_;
  std::map<int, PartTimes> parts_of_rank_;
  std::vector<PartTimesByStage> parts_;  ///< by replica, with the placement at hand
  std::vector<std::int64_t> gradients_;  ///< bytes, by unit of the model
  std::map<std::tuple<int, int, int>, std::int64_t> peaks_;  ///< by stage, blocks, microbatches
  std::size_t simulated_ = 0;
};

}  // namespace lockstep
