#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/run/report/text_table.h"
#include "lessons/15_3d/prediction.h"
#include "lessons/19_unlike_machines/foresee.h"

namespace lockstep {

/// Searches for the division of a step with the shortest time on the plan's cluster.
///
/// For each placement, the search simulates the replicas' pipelines, whose longest determines when
/// gradients can be summed. It starts from a few divisions, the even one among them, and moves
/// single blocks between stages and single microbatches between replicas, as long as this shortens
/// the longest pipeline. Updates and sums of gradients are not simulated; therefore the best
/// divisions, and the even one, are then foreseen in full, and the shortest wins. A division counts
/// only if every rank's step fits in its device's memory.
class DivisionSearch {
 public:
  DivisionSearch(const Plan& plan, const Composition& chosen) : plan_(plan), chosen_(chosen) {}

  struct Found {
    Division division;
    Foreseen foreseen;
  };

  /// Throws UsageError if no division that the search tries fits in memory.
  Found find() {
    const Division even = even_division(plan_);
    std::vector<std::pair<Picoseconds, Division>> good;
    for (const Mesh& mesh : meshes())
      for (const std::vector<int>& placement : placements(mesh))
        if (auto best = best_of(mesh, placement)) good.push_back(std::move(*best));
    std::ranges::stable_sort(good, {}, [](const auto& each) { return each.first; });
    if (good.size() > foreseen_in_full) good.resize(foreseen_in_full);
    good.insert(good.begin(), {0, even});
    std::optional<Found> best;
    std::string why;
    for (const auto& [simulated, division] : good) {
      const Plan plan = divided(plan_, division);
      Foreseen foreseen = foresee(plan, chosen_);
      if (const int rank = rank_over_memory(plan, foreseen.peak); rank >= 0) {
        if (why.empty()) why = excess_of(rank, foreseen);
      } else if (!best || foreseen.step < best->foreseen.step) {
        best = Found{division, std::move(foreseen)};
      }
    }
    if (!best)
      throw UsageError("--search: found no division that fits in memory; in the even one, " + why +
                       "; use more stages or smaller microbatches");
    return *best;
  }

 private:
  static constexpr std::size_t foreseen_in_full = 6;
  static constexpr std::size_t most_placements = 120;      ///< for each order of the mesh's axes
  static constexpr std::size_t most_actions = 20'000'000;  ///< simulated; takes a few seconds

  /// The mesh as it is, with its replicas inside, and with its pipelines inside.
  std::vector<Mesh> meshes() const {
    std::vector<Mesh> all;
    for (const Mesh& mesh :
         {plan_.mesh, plan_.mesh.ordered("tp,cp,dp,pp"), plan_.mesh.ordered("tp,cp,pp,dp")})
      if (std::ranges::none_of(all, [&](const Mesh& other) {
            return other.group(0, Axis::pp) == mesh.group(0, Axis::pp);
          }))
        all.push_back(mesh);
    return all;
  }

  /// Returns the orders of a pipeline's ranks that differ in speed or in links. Ranks of the same
  /// kind on the same nodes are interchangeable.
  std::vector<std::vector<int>> placements(const Mesh& mesh) const {
    const Cluster& cluster = plan_.modelled->cluster;
    std::map<std::vector<std::tuple<int, double, int>>, std::vector<int>> kinds;
    for (int stage = 0; stage < mesh.size(Axis::pp); ++stage) {
      std::vector<std::tuple<int, double, int>> kind;
      const int first = mesh.group(0, Axis::pp)[static_cast<std::size_t>(stage)];
      for (const int rank : mesh.group(first, Axis::dp))
        kind.emplace_back(cluster.group_of(rank), plan_.modelled->slowness(rank),
                          rank / cluster.ranks_per_node);
      kinds[kind].push_back(stage);
    }
    std::vector<int> order;  // the kind of each stage's rank
    std::vector<std::vector<int>> of_kind;
    for (const auto& [kind, coordinates] : kinds) {
      order.insert(order.end(), coordinates.size(), static_cast<int>(of_kind.size()));
      of_kind.push_back(coordinates);
    }
    std::vector<std::vector<int>> all;
    do {
      std::vector<std::size_t> used(of_kind.size());
      std::vector<int>& placement = all.emplace_back();
      for (const int kind : order) {
        const auto k = static_cast<std::size_t>(kind);
        placement.push_back(of_kind[k][used[k]++]);
      }
    } while (all.size() < most_placements && std::ranges::next_permutation(order).found);
    return all;
  }

  /// Returns the best division with this placement, and the time of its longest pipeline; nothing
  /// if none fits in memory.
  std::optional<std::pair<Picoseconds, Division>> best_of(const Mesh& mesh,
                                                          const std::vector<int>& placement) {
    Division start = even_division(plan_);
    start.mesh = mesh;
    start.placement = placement;
    const int replicas = mesh.size(Axis::dp);
    parts_.clear();
    for (int replica = 0; replica < replicas; ++replica)
      parts_.push_back(part_times(divided(plan_, start), plan_.batch.microbatches,
                                  mesh.group(0, Axis::dp)[static_cast<std::size_t>(replica)]));
    std::optional<std::pair<Picoseconds, Division>> best;
    std::vector<std::vector<int>> splits{start.split};
    for (const PartTimesByStage& parts : parts_) splits.push_back(balanced_split(parts));
    for (const std::vector<int>& split : splits) {
      start.split = split;
      for (const bool even : {true, false}) {
        if (!even && replicas == 1) continue;
        Division from = start;
        if (!even) from.shares = shares_for(split);
        auto found = improved(from);
        if (found.first < unfit && (!best || found.first < best->first)) best = std::move(found);
      }
    }
    return best;
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

  /// Moves single blocks and single microbatches, as long as this shortens the longest pipeline.
  std::pair<Picoseconds, Division> improved(Division now) {
    Picoseconds time = longest(now);
    const auto moved = [&](std::vector<int> Division::*of) {
      bool any = false;
      for (std::size_t from = 0; from < (now.*of).size(); ++from)
        for (std::size_t to = 0; to < (now.*of).size(); ++to) {
          if (from == to || (now.*of)[from] == 1 || simulated_ > most_actions) continue;
          Division other = now;
          --(other.*of)[from];
          ++(other.*of)[to];
          // Another split may pay only with other shares.
          if (of == &Division::split && other.shares.size() > 1) {
            Division both = other;
            both.shares = shares_for(both.split);
            if (longest(both) < longest(other)) other = both;
          }
          if (const Picoseconds its = longest(other); its < time) {
            now = other;
            time = its;
            any = true;
          }
        }
      return any;
    };
    while (moved(&Division::split) || moved(&Division::shares)) continue;
    return {time, now};
  }

  /// Returns the time of the longest pipeline. If a division does not fit in memory, the search
  /// minimizes the excess first.
  Picoseconds longest(const Division& division) {
    const Plan plan = divided(plan_, division);
    if (const std::int64_t bytes = excess(plan); bytes > 0) return unfit + bytes;
    PipelineTimes times;
    times.boundary_bytes = plan.boundary(plan.batch.microbatches).bytes();
    times.cluster = plan.modelled->cluster;
    Picoseconds longest = 0;
    for (std::size_t replica = 0; replica < parts_.size(); ++replica) {
      const Schedule schedule = schedule_of(plan, static_cast<int>(replica));
      times.stages = stages_of(parts_[replica], division.split);
      times.world_ranks = plan.mesh.group(plan.mesh.group(0, Axis::dp)[replica], Axis::pp);
      simulated_ += schedule.action_count();
      longest = std::max(longest, simulate(schedule, times).makespan);
    }
    return longest;
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
        const auto memory = cluster.as_seen_by(rank).memory;
        if (memory) bytes += std::max<std::int64_t>(0, peak_of(plan, rank, stage) - *memory);
      }
    return bytes;
  }

  std::int64_t peak_of(const Plan& plan, int rank, int stage) {
    const int replica = plan.mesh.coordinate(rank, Axis::dp);
    const auto [found, is_new] =
        peaks_.try_emplace({stage, plan.split[static_cast<std::size_t>(stage)],
                            plan.batch.shares[static_cast<std::size_t>(replica)]});
    if (is_new)
      found->second =
          dry_run_mesh(plan, plan.place(rank), schedule_of(plan, replica), chosen_).peak_total;
    return found->second;
  }

  std::string excess_of(int rank, const Foreseen& foreseen) const {
    return fmt::format("rank {} needs {} of {}", rank,
                       human_bytes(foreseen.peak[static_cast<std::size_t>(rank)]),
                       human_bytes(plan_.modelled->cluster.as_seen_by(rank).memory.value_or(0)));
  }

  static constexpr Picoseconds unfit = Picoseconds{1} << 60;  ///< more than any simulated time

  Plan plan_;
  Composition chosen_;
  std::vector<PartTimesByStage> parts_;  ///< by replica, with the placement at hand
  std::map<std::tuple<int, int, int>, std::int64_t> peaks_;
  std::size_t simulated_ = 0;
};

}  // namespace lockstep
