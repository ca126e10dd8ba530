#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "lessons/19_unlike_machines/search.h"
#include "tests/support/portion.h"

// Divisions of a step among ranks that differ in speed and memory: the search is compared with an
// enumeration of its own.

using namespace lockstep;

namespace {

using Random = std::mt19937;

int random_from(Random& random, int least, int most) {
  return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
}

double random_speed(Random& random) {
  return 1e10 * std::pow(8.0, std::uniform_real_distribution<>{0, 1}(random));
}

/// A cluster of two or three kinds of devices, in groups that any rank may belong to, or node by
/// node. Links are free, fast or slow.
Cluster random_cluster(Random& random, int ranks) {
  Cluster cluster{.name = "random",
                  .nodes = ranks,
                  .ranks_per_node = random_from(random, 1, ranks),
                  .flops = random_speed(random),
                  .memory_bandwidth = 8 * random_speed(random)};
  cluster.launch_seconds = random() % 2 == 0 ? 0 : 1e-7;
  const double bandwidths[] = {1e9, 1e11, std::numeric_limits<double>::infinity()};
  cluster.within = {random() % 2 == 0 ? 0 : 1e-6, bandwidths[random() % 3]};
  cluster.between = {cluster.within.latency_seconds * 3, cluster.within.bandwidth / 4};
  const int kinds = random_from(random, 1, 2);
  const bool by_node = random() % 2 == 0;
  for (int kind = 0; kind < kinds; ++kind)
    cluster.groups.push_back({.name = "kind " + std::to_string(kind),
                              .ranks = {},
                              .flops = random_speed(random),
                              .memory_bandwidth = 8 * random_speed(random),
                              .launch_seconds = random() % 2 == 0 ? 0 : 1e-7});
  std::vector<int> kind_of_node;
  for (int i = 0; i < ranks; ++i) kind_of_node.push_back(random_from(random, -1, kinds - 1));
  for (int rank = 0; rank < ranks; ++rank) {
    const int node = by_node ? rank / cluster.ranks_per_node : rank;
    const int kind = kind_of_node[static_cast<std::size_t>(node)];
    if (kind >= 0) cluster.groups[static_cast<std::size_t>(kind)].ranks.push_back(rank);
  }
  std::erase_if(cluster.groups, [](const RankGroup& group) { return group.ranks.empty(); });
  return cluster;
}

Plan random_plan(Random& random) {
  struct Size {
    int dp, pp, layers, microbatches;
  };
  const Size sizes[] = {{1, 2, 6, 3}, {1, 3, 6, 3}, {1, 4, 6, 4}, {2, 1, 3, 4},
                        {2, 2, 4, 3}, {3, 1, 3, 3}, {2, 2, 5, 2}, {2, 3, 5, 2}};
  const auto& [dp, pp, layers, m] = sizes[random() % std::size(sizes)];
  Plan plan{{.layers = layers, .hidden = 16, .heads = 2, .sequence = 8},
            Mesh{dp * pp, {1, 1, dp, pp}}};
  plan.batch.microbatches = m;
  plan.batch.sequences = dp * m;
  plan.optimizer.clip = 0;
  plan.modelled = {random_cluster(random, dp * pp)};
  return plan;
}

/// Calls visit(parts) for all ways to write `sum` as `count` parts of at least one.
void every_composition(int sum, int count,
                       const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> parts(static_cast<std::size_t>(count), 1);
  const std::function<void(std::size_t, int)> choose = [&](std::size_t at, int left) {
    if (at + 1 == parts.size()) {
      parts[at] = left;
      visit(parts);
      return;
    }
    for (int part = 1; left - part >= static_cast<int>(parts.size() - at) - 1; ++part) {
      parts[at] = part;
      choose(at + 1, left - part);
    }
  };
  choose(0, sum);
}

/// Calls visit(plan) for every division of the plan's ranks.
void every_division(const Plan& plan, const std::function<void(const Plan&)>& visit) {
  const int dp = plan.mesh.size(Axis::dp), pp = plan.mesh.size(Axis::pp);
  for (const bool pipelines_inside : {false, true}) {
    if (pipelines_inside && (dp == 1 || pp == 1)) continue;
    Plan other = plan;
    if (pipelines_inside) other.mesh = plan.mesh.ordered("tp,cp,pp,dp");
    std::iota(other.rank_of_stage.begin(), other.rank_of_stage.end(), 0);
    do {
      every_composition(plan.model().layers, pp, [&](const std::vector<int>& split) {
        other.split = split;
        every_composition(dp * plan.batch.microbatches, dp, [&](const std::vector<int>& shares) {
          other.batch.shares = shares;
          visit(other);
        });
      });
    } while (std::ranges::next_permutation(other.rank_of_stage).found);
  }
}

}  // namespace

TEST_CASE("a slow second stage, worked by hand") {
  // Free links, two microbatches. Rank 1 is slow, so it never waits after its first input:
  //
  //     rank 0   F0 F1            B0             B1
  //     rank 1      F0---- B0---- F1---- B1----
  Plan plan{{.layers = 4, .hidden = 16, .heads = 2, .sequence = 8}, Mesh::along(Axis::pp, 2)};
  plan.batch.microbatches = plan.batch.sequences = 2;
  Cluster cluster;
  cluster.groups = {{.name = "slow", .ranks = {1}, .flops = cluster.flops / 4}};
  plan.modelled = {cluster};
  Plan equal = plan;
  equal.modelled->cluster.groups.clear();
  for (int stage = 0; stage < 2; ++stage) {
    const StageTimes own = stage_times(plan, stage, 2), fast = stage_times(equal, stage, 2);
    const int factor = stage == 1 ? 4 : 1;
    // Each kernel is rounded once.
    CHECK(std::abs(own.forward - factor * fast.forward) < 100);
    CHECK(std::abs(own.backward - factor * fast.backward) < 100);
  }
  const StageTimes first = stage_times(plan, 0, 2), second = stage_times(plan, 1, 2);
  StepEstimate estimate{plan, {}};
  estimate.place(plan);
  CHECK(estimate.step(even_division(plan)) ==
        first.forward + 2 * (second.forward + second.backward) + first.backward);
  const auto work = work_of_ranks(plan);
  CHECK(work[0].all() == 2 * (first.forward + first.backward));
  CHECK(work[1].all() == 2 * (second.forward + second.backward));
  CHECK(&pace_setter(work) == &work[1]);
  // The slow rank holds as few blocks as possible.
  const WorkDivision found = DivisionSearch{plan, {}}.find().division;
  CHECK(found.split[static_cast<std::size_t>(found.placement[0] == 1 ? 0 : 1)] == 1);
}

TEST_CASE(
    "100 random clusters: the search is never worse than the even division, and almost best") {
  Random random{19};
  int best_found = 0, better_than_even = 0;
  double worst = 1;
  for (int round = 0; round < 100; ++round) {
    const Plan plan = random_plan(random);
    CAPTURE(round);
    CAPTURE(plan.modelled->cluster.json());
    const auto found = DivisionSearch{plan, {}}.find();
    const Plan result = divided(plan, found.division);
    result.validate();
    CHECK(foresee(result, {}).step == found.foreseen.step);
    const Picoseconds even = foresee(divided(plan, even_division(plan)), {}).step;
    CHECK(found.foreseen.step <= even);
    better_than_even += found.foreseen.step < even ? 1 : 0;
    Picoseconds shortest = even;
    every_division(
        plan, [&](const Plan& other) { shortest = std::min(shortest, foresee(other, {}).step); });
    const double ratio = static_cast<double>(found.foreseen.step) / static_cast<double>(shortest);
    CHECK(ratio >= 1);
    CHECK(ratio <= 1.02);
    worst = std::max(worst, ratio);
    best_found += found.foreseen.step == shortest ? 1 : 0;
  }
  MESSAGE("best found: ", best_found, ", better than even: ", better_than_even,
          ", worst ratio: ", worst);
  CHECK(best_found >= 80);
  CHECK(better_than_even >= 60);
}

TEST_CASE("random clusters with little memory: the division found fits, and is almost best") {
  Random random{91};
  const int rounds = testing::portion_of(40, 10);
  int found_one = 0, even_fits = 0, missed = 0;
  for (int round = 0; round < rounds; ++round) {
    Plan plan = random_plan(random);
    CAPTURE(round);
    const Plan even = divided(plan, even_division(plan));
    const std::vector<std::int64_t> peaks = foresee(even, {}).peak;
    const auto memory = [&](double least, double most) {
      return static_cast<std::int64_t>(std::uniform_real_distribution<>{least, most}(random) *
                                       static_cast<double>(std::ranges::max(peaks)));
    };
    for (RankGroup& group : plan.modelled->cluster.groups) group.memory = memory(0.6, 1.1);
    if (random() % 2 == 0) plan.modelled->cluster.memory = memory(0.9, 1.5);
    even_fits += rank_over_memory(plan, peaks) < 0 ? 1 : 0;
    Picoseconds shortest = 0;
    every_division(plan, [&](const Plan& other) {
      const Foreseen foreseen = foresee(other, {});
      for (std::size_t rank = 0; rank < foreseen.peak.size(); ++rank) {
        const auto its = plan.modelled->cluster.as_seen_by(static_cast<int>(rank)).memory;
        if (its && foreseen.peak[rank] > *its) return;
      }
      if (shortest == 0 || foreseen.step < shortest) shortest = foreseen.step;
    });
    std::optional<DivisionSearch::Found> found;
    try {
      found = DivisionSearch{plan, {}}.find();
    } catch (const UsageError&) {
    }
    missed += shortest > 0 && !found ? 1 : 0;
    if (!found) continue;
    ++found_one;
    REQUIRE(shortest > 0);
    const Foreseen foreseen = foresee(divided(plan, found->division), {});
    CHECK(rank_over_memory(plan, foreseen.peak) < 0);
    CHECK(static_cast<double>(foreseen.step) <= 1.02 * static_cast<double>(shortest));
  }
  CHECK(missed == 0);
  CHECK(found_one >= rounds / 4);
  CHECK(even_fits < found_one);
}
