#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/available_memory.h"
#include "core/base/error.h"
#include "lessons/19_unlike_machines/estimate.h"

namespace lockstep {

/// Searches for the division of a step with the shortest time on the plan's cluster, in two rounds.
///
/// 1. For each placement, the search estimates steps (StepEstimate). It starts from a few
///    divisions, the even one among them, and moves single blocks between stages and single
///    microbatches between replicas, as long as this shortens the step.
/// 2. The estimate leaves out that buckets of gradients overlap with the backward pass, and the
///    update. Therefore the best divisions, and the even one, are replayed in full. From the
///    shortest, the search continues with the same moves, and with exchanges of two ranks' stages,
///    each replayed in full.
///
/// A division counts only if every rank's step fits in its device's memory.
class DivisionSearch {
 public:
  DivisionSearch(const Plan& plan, const Composition& chosen)
      : plan_(plan), chosen_(chosen), estimate_(plan, chosen) {}

  struct Found {
    WorkDivision division;
    Foreseen foreseen;
  };

  /// Throws UsageError if no division that the search tries fits in memory.
  Found find() {
    try_in_full(even_division(plan_));
    for (const Mesh& mesh : meshes()) {
      std::vector<std::pair<Picoseconds, WorkDivision>> good;
      for (const std::vector<int>& placement : placements(mesh))
        if (auto best = best_of(mesh, placement)) good.push_back(std::move(*best));
      std::ranges::stable_sort(good, {}, [](const auto& each) { return each.first; });
      if (good.size() > in_full_per_mesh) good.resize(in_full_per_mesh);
      for (const auto& [simulated, division] : good) try_in_full(division);
    }
    if (!best_)
      throw UsageError("--search: found no division that fits in memory; in the even one, " +
                       excess_ + "; use more stages or smaller microbatches");
    while (improve_in_full()) continue;
    return *best_;
  }

 private:
  static constexpr std::size_t in_full_per_mesh = 4;
  static constexpr std::size_t most_in_full = 200;     ///< divisions replayed in full
  static constexpr std::size_t most_placements = 120;  ///< for each order of the mesh's axes

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

  /// Returns the best division with this placement, and the estimate of its step; nothing if none
  /// fits in memory.
  std::optional<std::pair<Picoseconds, WorkDivision>> best_of(const Mesh& mesh,
                                                              const std::vector<int>& placement) {
    WorkDivision start = even_division(plan_);
    start.mesh = mesh;
    start.placement = placement;
    estimate_.place(divided(plan_, start));
    std::optional<std::pair<Picoseconds, WorkDivision>> best;
    std::vector<std::vector<int>> splits = estimate_.balanced_splits();
    splits.insert(splits.begin(), start.split);
    for (const std::vector<int>& split : splits) {
      start.split = split;
      for (const bool even : {true, false}) {
        if (!even && start.shares.size() == 1) continue;
        WorkDivision from = start;
        if (!even) from.shares = estimate_.shares_for(split);
        auto found = improved(from);
        if (StepEstimate::is_fit(found.first) && (!best || found.first < best->first))
          best = std::move(found);
      }
    }
    return best;
  }

  /// Moves single blocks and single microbatches, as long as this shortens the step.
  std::pair<Picoseconds, WorkDivision> improved(WorkDivision now) {
    Picoseconds time = estimate_.step(now);
    const auto moved = [&](std::vector<int> WorkDivision::*of) {
      bool any = false;
      for (std::size_t from = 0; from < (now.*of).size(); ++from)
        for (std::size_t to = 0; to < (now.*of).size(); ++to) {
          if (from == to || (now.*of)[from] == 1 || estimate_.is_over()) continue;
          WorkDivision other = now;
          --(other.*of)[from];
          ++(other.*of)[to];
          // Another split may pay only with other shares.
          if (of == &WorkDivision::split && other.shares.size() > 1) {
            WorkDivision both = other;
            both.shares = estimate_.shares_for(both.split);
            if (estimate_.step(both) < estimate_.step(other)) other = both;
          }
          if (const Picoseconds its = estimate_.step(other); its < time) {
            now = other;
            time = its;
            any = true;
          }
        }
      return any;
    };
    while (moved(&WorkDivision::split) || moved(&WorkDivision::shares)) continue;
    return {time, now};
  }

  /// Foresees a division, unless this has been done. Returns whether it is better than the best
  /// before.
  bool try_in_full(const WorkDivision& division) {
    if (std::ranges::count(tried_, division) > 0 || tried_.size() >= most_in_full) return false;
    tried_.push_back(division);
    const Plan plan = divided(plan_, division);
    Foreseen foreseen = foresee(plan, chosen_);
    if (const int rank = rank_over_memory(plan, foreseen.peak); rank >= 0) {
      if (excess_.empty())
        excess_ = fmt::format(
            "rank {} needs {} of {}", rank,
            text_of_bytes(static_cast<double>(foreseen.peak[static_cast<std::size_t>(rank)])),
            text_of_bytes(static_cast<double>(*memory_of(plan.modelled->cluster, rank))));
      return false;
    }
    if (best_ && foreseen.step >= best_->foreseen.step) return false;
    best_ = Found{division, std::move(foreseen)};
    return true;
  }

  /// Tries all moves from the best division. Returns whether one of them is better.
  bool improve_in_full() {
    const WorkDivision from = best_->division;
    bool any = false;
    for (const auto of : {&WorkDivision::split, &WorkDivision::shares})
      for (std::size_t a = 0; a < (from.*of).size(); ++a)
        for (std::size_t b = 0; b < (from.*of).size(); ++b) {
          if (a == b || (from.*of)[a] == 1) continue;
          WorkDivision other = from;
          --(other.*of)[a];
          ++(other.*of)[b];
          any = try_in_full(other) || any;
        }
    for (std::size_t a = 0; a < from.placement.size(); ++a)
      for (std::size_t b = a + 1; b < from.placement.size(); ++b) {
        WorkDivision other = from;  // two ranks exchange their stages,
        std::swap(other.placement[a], other.placement[b]);
        any = try_in_full(other) || any;
        std::swap(other.split[a], other.split[b]);  // but keep their numbers of blocks
        any = try_in_full(other) || any;
      }
    return any;
  }

  Plan plan_;
  Composition chosen_;
  StepEstimate estimate_;
  std::vector<WorkDivision> tried_;  ///< in full
  std::optional<Found> best_;
  std::string excess_;  ///< of the first division that did not fit
};

}  // namespace lockstep
