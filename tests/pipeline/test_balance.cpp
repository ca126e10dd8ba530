#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <utility>

#include "core/pipeline/balance.h"
#include "core/pipeline/pipeline_prediction.h"
#include "lessons/schedules/registry.h"
#include "tests/pipeline/random_schedules.h"

using namespace lockstep;

namespace {

using Random = std::mt19937;

StageTimes random_times(Random& random, int most) {
  StageTimes times{.forward = pick(random, 0, most),
                   .backward_input = pick(random, 0, most),
                   .backward_weight = pick(random, 0, most)};
  times.backward = times.backward_input + times.backward_weight;
  return times;
}

/// Returns blocks that are equal, as in a model, or all different.
PartTimes random_parts(Random& random, int layers) {
  const bool equal = pick(random, 0, 1) == 0;
  PartTimes parts{.embedding = random_times(random, 100), .head = random_times(random, 1000)};
  parts.blocks.assign(static_cast<std::size_t>(layers), random_times(random, 300));
  if (!equal)
    for (StageTimes& block : parts.blocks) block = random_times(random, 300);
  return parts;
}

/// Calls `visit` with every split of that many blocks.
void every_split(int layers, int stages,
                 const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> split;
  const std::function<void(int)> extend = [&](int left) {
    const int more = stages - static_cast<int>(split.size()) - 1;
    if (more == 0) {
      split.push_back(left);
      visit(split);
      split.pop_back();
      return;
    }
    for (int blocks = 1; blocks + more <= left; ++blocks) {
      split.push_back(blocks);
      extend(left - blocks);
      split.pop_back();
    }
  };
  extend(layers);
}

/// The longest stage, and the sum of squares.
std::pair<Picoseconds, double> unevenness(const PartTimes& parts, const std::vector<int>& split) {
  std::pair<Picoseconds, double> result;
  for (const StageTimes& stage : parts.stages(split)) {
    const Picoseconds time = stage.forward + stage.backward;
    result.first = std::max(result.first, time);
    result.second += static_cast<double>(time) * static_cast<double>(time);
  }
  return result;
}

Plan uneven_plan(int layers, int ranks, int m, bool tied = false) {
  Plan plan{{.layers = layers,
             .hidden = 32,
             .heads = 2,
             .sequence = 16,
             .vocabulary = 3000,
             .tied = tied},
            Mesh{ranks, {1, 1, 1, ranks}, "tp,cp,dp,pp"}};
  plan.batch = {.sequences = 2 * m, .microbatches = m};
  Cluster cluster;
  cluster.flops = 1e11;
  cluster.within = cluster.between = {1e-6, 1e9};
  plan.modelled = {cluster};
  return plan;
}

}  // namespace

TEST_CASE("stages have the parts' times, with the embedding first and the head last") {
  const PartTimes parts{.embedding = {1, 2, 3, 4},
                        .blocks = {{10, 20, 30, 40}, {100, 200, 300, 400}, {5, 6, 7, 8}},
                        .head = {1000, 2000, 3000, 4000}};
  const auto stages = parts.stages({2, 1});
  REQUIRE(stages.size() == 2);
  CHECK(stages[0].forward == 111);
  CHECK(stages[0].backward == 222);
  CHECK(stages[0].backward_input == 333);
  CHECK(stages[0].backward_weight == 444);
  CHECK(stages[1].forward == 1005);
  CHECK(stages[1].backward_weight == 4008);
  CHECK(parts.stages({3}).front().forward == 1116);
}

TEST_CASE(
    "no split has a shorter longest stage than balanced_split(), nor a smaller sum of squares") {
  Random random{1};
  for (int round = 0; round < 300; ++round) {
    const int stages = pick(random, 1, 6), layers = stages + pick(random, 0, 6);
    CAPTURE(round);
    const PartTimes parts = random_parts(random, layers);
    const std::vector<int> split = balanced_split(parts, stages);
    REQUIRE(static_cast<int>(split.size()) == stages);
    auto best = unevenness(parts, split);
    int seen = 0;
    every_split(layers, stages, [&](const std::vector<int>& other) {
      ++seen;
      CHECK(unevenness(parts, other) >= best);
    });
    CHECK(seen > 0);
  }
  CHECK_THROWS_AS(balanced_split({.blocks = {{}, {}}}, 3), std::invalid_argument);
}

TEST_CASE("the search shortens the step, and is almost always as good as trying all splits") {
  Random random{2};
  int best_found = 0, rounds = 0;
  for (int round = 0; round < 120; ++round) {
    const std::vector<KnownSchedule>& known = known_schedules();
    const KnownSchedule& each = known[static_cast<std::size_t>(round) % known.size()];
    const PipelineSize size{pick(random, 2, 3), each.least_chunks, pick(random, 4, 8)};
    if (each.searched || !refusal(each, size).empty()) continue;
    const Schedule schedule = each.generate(ScheduleRequest{size});
    const int layers = schedule.stages + pick(random, 1, 4);
    const PartTimes parts = random_parts(random, layers);
    PipelineTimes times;
    times.cluster.within = times.cluster.between = {1e-10, 1e12};
    times.boundary_bytes = pick(random, 0, 200);
    const auto step_with = [&](const std::vector<int>& split) {
      times.stages = parts.stages(split);
      return simulate(schedule, times).makespan;
    };
    std::vector<int> current = even_split({.layers = layers}, schedule.stages);
    const PartTimesByStage by_stage(static_cast<std::size_t>(schedule.stages), parts);
    const SimulatedSplit found = shortest_step(by_stage, schedule, times, current);
    CAPTURE(each.name);
    CHECK(found.step == step_with(found.split));
    CHECK(found.step <= step_with(current));
    CHECK(found.step <= step_with(balanced_split(parts, schedule.stages)));
    if (found.step == step_with(current)) CHECK(found.split == current);
    Picoseconds shortest = found.step;
    every_split(layers, schedule.stages, [&](const std::vector<int>& other) {
      shortest = std::min(shortest, step_with(other));
    });
    CAPTURE(found.step);
    CAPTURE(shortest);
    CHECK(static_cast<double>(found.step) <= 1.05 * static_cast<double>(shortest));
    best_found += found.step == shortest ? 1 : 0;
    ++rounds;
  }
  CHECK(rounds > 60);
  CHECK(best_found >= 0.9 * rounds);
}

TEST_CASE("stages on unlike ranks: no split has a shorter longest stage") {
  Random random{5};
  for (int round = 0; round < 200; ++round) {
    const int stages = pick(random, 1, 4), layers = stages + pick(random, 0, 4);
    PartTimesByStage parts;
    for (int stage = 0; stage < stages; ++stage) parts.push_back(random_parts(random, layers));
    const auto longest = [&](const std::vector<int>& split) {
      // Adds the parts itself: block by block, each on the rank of its stage.
      Picoseconds most = 0;
      std::size_t block = 0;
      for (std::size_t stage = 0; stage < split.size(); ++stage) {
        Picoseconds time = 0;
        const auto add = [&](const StageTimes& part) { time += part.forward + part.backward; };
        for (int i = 0; i < split[stage]; ++i) add(parts[stage].blocks[block++]);
        if (stage == 0) add(parts[stage].embedding);
        if (stage + 1 == split.size()) add(parts[stage].head);
        most = std::max(most, time);
      }
      return most;
    };
    const Picoseconds found = longest(balanced_split(parts));
    every_split(layers, stages,
                [&](const std::vector<int>& other) { CHECK(found <= longest(other)); });
  }
}

TEST_CASE("the proposal gives a slow rank fewer blocks, as predicted") {
  const Schedule schedule = find_schedule("1f1b")->generate(ScheduleRequest{{3, 1, 6}});
  for (const bool by_group : {false, true}) {
    Plan plan = uneven_plan(12, 3, 6);
    if (by_group) {
      RankGroup slow{.name = "slow", .ranks = {1}};
      slow.flops = plan.modelled->cluster.flops / 3;
      slow.memory_bandwidth = plan.modelled->cluster.memory_bandwidth / 3;
      slow.launch_seconds = plan.modelled->cluster.launch_seconds * 3;
      plan.modelled->cluster.groups = {slow};
    } else {
      plan.modelled->slow = {{1, 3}};
    }
    CAPTURE(by_group);
    const SplitProposal proposal = propose_split(plan, schedule);
    CHECK(proposal.better_step < proposal.step);
    CHECK(proposal.better[1] < proposal.better[0]);
    CHECK(proposal.block == 0);  // the blocks' times differ
    Plan better = plan;
    better.split = proposal.better;
    CHECK(proposal.better_step == simulate(schedule, pipeline_times(better, 6)).makespan);
  }
}

TEST_CASE("the proposal for a model with a large head has fewer blocks on the last stage") {
  for (const bool tied : {false, true}) {
    const Plan plan = uneven_plan(11, 4, 8, tied);
    for (const char* word : {"gpipe", "1f1b", "zb-h1"}) {
      const KnownSchedule* known = find_schedule(word);
      REQUIRE(known != nullptr);
      const Schedule schedule = known->generate(ScheduleRequest{{4, 1, 8}});
      const SplitProposal proposal = propose_split(plan, schedule);
      CAPTURE(word);
      CHECK(proposal.split == std::vector{3, 3, 3, 2});
      CHECK(proposal.step == simulate(schedule, pipeline_times(plan, 8)).makespan);
      CHECK(proposal.head > proposal.block);
      CHECK(proposal.better.back() == 1);
      CHECK(proposal.better_step < proposal.step);
      Plan better = plan;
      better.split = proposal.better;
      better.validate();
      CHECK(proposal.better_step == simulate(schedule, pipeline_times(better, 8)).makespan);
      // From that split on, no better one is found.
      CHECK(propose_split(better, schedule).better == proposal.better);
    }
  }
}

TEST_CASE("the parts' times add up to the stages'") {
  Plan plan = uneven_plan(7, 3, 4);
  const Schedule schedule = find_schedule("1f1b")->generate(ScheduleRequest{{3, 1, 4}});
  const SplitProposal parts = propose_split(plan, schedule);
  for (const std::vector<int>& split : {std::vector{3, 2, 2}, {1, 1, 5}, {2, 4, 1}}) {
    plan.split = split;
    for (int stage = 0; stage < 3; ++stage) {
      const StageTimes times = stage_times(plan, stage, 4);
      CHECK(times.forward + times.backward == split[static_cast<std::size_t>(stage)] * parts.block +
                                                  (stage == 0 ? parts.embedding : 0) +
                                                  (stage == 2 ? parts.head : 0));
    }
  }
}

TEST_CASE("no proposal with fixed times, with one stage, or with a block per stage") {
  const auto schedule = [](int ranks) {
    return find_schedule("1f1b")->generate(ScheduleRequest{{ranks, 1, 4}});
  };
  Plan fixed = uneven_plan(7, 3, 4);
  fixed.modelled->times.set(Category::forward, 1000);
  for (const Plan& plan :
       {fixed, uneven_plan(7, 1, 4), uneven_plan(3, 3, 4), uneven_plan(2, 2, 4)}) {
    const SplitProposal proposal = propose_split(plan, schedule(plan.stages()));
    CHECK(proposal.better == proposal.split);
    CHECK(proposal.better_step == proposal.step);
  }
}
