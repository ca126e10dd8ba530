#include <doctest/doctest.h>

#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/plan/footprint.h"
#include "exercises/29_defend_your_plan/judge.h"
#include "exercises/29_defend_your_plan/toy.h"
#include "lessons/15_3d/prediction.h"
#include "lessons/17_choosing/plan/search.h"
#include "tests/support/portion.h"
#include "tests/support/ranks.h"

// The judge of exercise 29: its verdicts on plausible plans, on impossible ones, and at toy scale.

using namespace lockstep;
using namespace lockstep::exercises;
using lockstep::testing::all_cases;
using lockstep::testing::on_all;
using lockstep::testing::portion;

namespace {

/// Plans that a user might propose, by case.
const std::vector<std::vector<TrainingPlan>> plausible{
    // 70B on 64 GPUs
    {{.dp = 4, .tp = 4, .pp = 2, .cp = 2, .zero = 1},
     {.dp = 4, .tp = 2, .pp = 8, .zero = 1},
     {.dp = 2, .tp = 8, .pp = 4, .zero = 1},
     {.dp = 64, .zero = 3, .recompute = "full"},
     {.dp = 64, .recompute = "full"},
     {.dp = 4, .tp = 4, .pp = 4, .zero = 1},
     {.dp = 4, .tp = 4, .pp = 4, .zero = 1, .recompute = "full"},
     {.dp = 8, .tp = 8, .zero = 3},
     {.dp = 32, .tp = 2, .zero = 3},
     {.dp = 16, .tp = 4, .zero = 3},
     {.dp = 16, .tp = 4, .zero = 3, .recompute = "full"},
     {.dp = 2, .tp = 4, .pp = 4, .cp = 2, .zero = 1, .schedule = "zb-v", .chunks = 2},
     {.tp = 8, .pp = 8, .schedule = "interleaved", .chunks = 2},
     {.dp = 2, .tp = 4, .pp = 8, .zero = 1, .schedule = "interleaved", .chunks = 5}},
    // 70B on 256 GPUs
    {{.dp = 64, .tp = 4, .zero = 3},
     {.dp = 16, .tp = 4, .pp = 2, .cp = 2, .zero = 1},
     {.dp = 32, .tp = 2, .pp = 4, .zero = 1},
     {.dp = 64, .tp = 2, .cp = 2, .zero = 3, .recompute = "full"},
     {.dp = 64, .tp = 4, .recompute = "full"},
     {.dp = 4, .tp = 8, .pp = 8, .zero = 1},
     {.dp = 32, .tp = 8, .zero = 3},
     {.dp = 32, .tp = 8, .zero = 1},
     {.dp = 64, .tp = 2, .pp = 2, .zero = 2},
     {.dp = 4, .tp = 8, .pp = 8, .zero = 1, .schedule = "interleaved", .chunks = 5},
     {.dp = 8, .tp = 4, .pp = 4, .cp = 2, .zero = 1, .schedule = "zb-v", .chunks = 2},
     {.dp = 16, .tp = 8, .pp = 2, .zero = 1},
     {.dp = 8, .tp = 8, .pp = 4, .schedule = "interleaved", .chunks = 2}},
    // 405B on 16,384 GPUs
    {{.dp = 256,
      .tp = 8,
      .pp = 8,
      .zero = 1,
      .schedule = "interleaved",
      .chunks = 9,
      .recompute = "full"},
     {.dp = 128, .tp = 8, .pp = 16, .zero = 1, .recompute = "full"},
     {.dp = 128, .tp = 8, .pp = 16, .zero = 1},
     {.dp = 2048, .tp = 8, .zero = 3, .recompute = "full"},
     {.dp = 128,
      .tp = 8,
      .pp = 16,
      .zero = 1,
      .schedule = "interleaved",
      .chunks = 7,
      .recompute = "full"},
     {.dp = 128, .tp = 8, .pp = 16, .zero = 1, .schedule = "zb-h1", .recompute = "full"},
     {.dp = 64, .tp = 8, .pp = 16, .cp = 2, .zero = 1},
     {.dp = 64, .tp = 8, .pp = 16, .cp = 2, .zero = 1, .schedule = "interleaved", .chunks = 2},
     {.dp = 2048, .tp = 8, .zero = 1, .recompute = "full"},
     {.dp = 512, .tp = 8, .pp = 4, .zero = 2, .recompute = "full"},
     {.dp = 256,
      .tp = 4,
      .pp = 8,
      .cp = 2,
      .zero = 1,
      .schedule = "interleaved",
      .chunks = 14,
      .recompute = "full"}},
    // 70B with long sequences
    {{.dp = 8, .tp = 4, .cp = 8, .zero = 3},
     {.dp = 16, .tp = 4, .pp = 2, .cp = 2, .zero = 1},
     {.dp = 64, .tp = 2, .cp = 2, .zero = 3},
     {.dp = 8, .tp = 8, .cp = 4, .zero = 3},
     {.dp = 64, .tp = 4, .zero = 3, .recompute = "full"},
     {.dp = 8, .tp = 8, .pp = 4, .zero = 1, .recompute = "full"},
     {.dp = 16, .tp = 8, .cp = 2, .zero = 3, .recompute = "full"},
     {.dp = 32, .tp = 8, .zero = 3, .recompute = "full"},
     {.dp = 4, .tp = 8, .pp = 2, .cp = 4, .zero = 1},
     {.dp = 2, .tp = 4, .pp = 2, .cp = 16, .zero = 1},
     {.dp = 4, .tp = 8, .cp = 8, .zero = 3},
     {.dp = 16, .cp = 16, .zero = 3, .recompute = "full"}},
    // 22B on slow links
    {{.dp = 8, .pp = 4, .zero = 1, .schedule = "zb-v", .chunks = 2},
     {.dp = 32, .zero = 3, .microbatch = 4},
     {.dp = 32, .zero = 3, .microbatch = 8, .recompute = "full"},
     {.dp = 32, .zero = 3},
     {.dp = 4, .tp = 8, .zero = 1, .microbatch = 8},
     {.dp = 2, .tp = 16, .zero = 1, .microbatch = 4},
     {.dp = 8, .pp = 4, .zero = 1},
     {.dp = 8, .pp = 4},
     {.dp = 32, .zero = 1, .recompute = "full"},
     {.dp = 16, .tp = 2, .zero = 1},
     {.tp = 8, .pp = 4, .microbatch = 4},
     {.dp = 16, .pp = 2, .zero = 1, .microbatch = 2, .schedule = "zb-v", .chunks = 2},
     {.dp = 4,
      .tp = 2,
      .pp = 4,
      .zero = 1,
      .microbatch = 2,
      .schedule = "interleaved",
      .chunks = 4}}};

/// Returns the peak of the ranks that are first along all axes but pp, each computed by a separate
/// dry run, as lesson 17 predicts it. (The others of a stage hold no more.)
std::int64_t peak_by_dry_runs(const PlannedRun& run) {
  std::int64_t peak = 0;
  for (const int rank : run.plan.mesh.group(0, Axis::pp))
    peak = std::max(
        peak, dry_run_mesh(run.plan, run.plan.place(rank), run.schedule, run.chosen).peak_total);
  return peak;
}

/// Returns the step's time by replay, without the planner's accounts of it.
Picoseconds step_by_replay(const PlannedRun& run, const Folding& folding) {
  const RunOperations operations = record_step(run, folding);
  const Replay replay{operations, Scenario{operations.modelled}};
  return replay.step_time(replay.last_step());
}

/// Returns the largest number of passes whose activations a pipeline's rank holds at once,
/// according to the schedule's actions.
int most_in_flight(const Schedule& schedule, int rank) {
  std::set<std::pair<int, int>> held;
  std::size_t most = 0;
  const auto& actions = schedule.actions[static_cast<std::size_t>(rank)];
  const bool splits = std::ranges::count(actions, Op::backward_weight, &Action::op) > 0;
  for (const Action& action : actions) {
    const std::pair pass{action.stage, action.microbatch};
    if (action.op == Op::forward) held.insert(pass);
    if (action.op == (splits ? Op::backward_weight : Op::backward) || action.op == Op::backward)
      held.erase(pass);
    most = std::max(most, held.size());
  }
  return static_cast<int>(most);
}

bool says(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

/// Compares the judge's verdict on a plan that does not fit with its figures.
void check_memory_verdict(const Case& each, const Judgement& judgement) {
  const StepFigures& figures = judgement.figures;
  const std::int64_t memory = *each.task.cluster.memory;
  CHECK(says(judgement.what,
             fmt::format("needs {} of {}, {} too much", detail::gigabytes(figures.peak),
                         detail::gigabytes(memory), detail::gigabytes(figures.peak - memory))));
  const MemoryCategory largest = detail::largest(figures.memory);
  for (const MemoryCategory category : all_memory_categories) {
    CHECK(figures.memory.of(category) <= figures.memory.of(largest));
    CHECK(says(judgement.what, detail::gigabytes(figures.memory.of(category))));
  }
  if (largest != MemoryCategory::activations) return;
  CHECK(judgement.why.starts_with("Activations"));
  const Schedule schedule = planned_run(each.task, judgement.plan).schedule;
  const int rank =
      planned_run(each.task, judgement.plan).plan.mesh.coordinate(figures.fullest, Axis::pp);
  CHECK(says(judgement.why, fmt::format("up to {} ", most_in_flight(schedule, rank))));
}

/// Compares the judge's verdict on a plan that is too slow with its figures.
void check_time_verdict(const Case& each, const Judgement& judgement) {
  CHECK(says(judgement.what, detail::seconds(judgement.figures.step)));
  CHECK(says(judgement.what, detail::seconds(judgement.reference.step)));
  CHECK(says(judgement.what, each.reference.text()));
  const auto [cause, more] = bottleneck(judgement);
  CHECK(judgement.why.starts_with(fmt::format("The largest difference: {}, {} more",
                                              exercises::name_of(cause), detail::seconds(more))));
  auto mine = by_cause(judgement.figures.parts);
  auto better = by_cause(judgement.reference.parts);
  Picoseconds sum = 0, sum_of_better = 0;
  for (const Cause other : all_causes) {
    sum += mine[other];
    sum_of_better += better[other];
    CHECK(mine[other] - better[other] <= more);
  }
  CHECK(more > 0);
  CHECK(sum == judgement.figures.step);
  CHECK(sum_of_better == judgement.reference.step);
  CHECK(mine[cause] - better[cause] == more);
}

}  // namespace

TEST_CASE("plausible plans are judged as the planner's figures say") {
  REQUIRE(plausible.size() == training_cases().size());
  for (std::size_t i = 0; i < plausible.size(); ++i) {
    const Case& each = training_cases()[i];
    const Picoseconds best = step_by_replay(planned_run(each.task, each.reference),
                                            folding_of(planned_run(each.task, each.reference)));
    int too_large = 0, too_slow = 0, right = 0;
    for (const TrainingPlan& plan : portion(plausible[i], 2)) {
      const Configuration chosen = possible(each, plan);
      CAPTURE(each.name);
      CAPTURE(chosen.text());
      const PlannedRun run = planned_run(each.task, chosen);
      const std::int64_t peak = peak_by_dry_runs(run);
      const Judgement judgement = judge(each, chosen);
      CHECK(judgement.figures.peak == peak);
      CHECK(judgement.fits == (peak <= 80'000'000'000));
      if (!judgement.fits) {
        ++too_large;
        CHECK(!judgement.is_right());
        check_memory_verdict(each, judgement);
        continue;
      }
      // If replaying is cheap, each rank is replayed, and none stands for another.
      const bool folds = run.plan.mesh.ranks() > 32;
      const Picoseconds step = step_by_replay(run, folds ? folding_of(run) : Folding{});
      CHECK(judgement.figures.step == step);
      CHECK(judgement.reference.step == best);
      const bool is_fast = static_cast<double>(step) <= 1.15 * static_cast<double>(best);
      CHECK(judgement.is_right() == is_fast);
      if (!is_fast) check_time_verdict(each, judgement);
      ++(is_fast ? right : too_slow);
    }
    MESSAGE(each.name, ": ", too_large, " do not fit, ", too_slow, " are too slow, ", right,
            " are right");
    if (!all_cases()) continue;
    CHECK(too_large >= 3);
    CHECK(too_slow >= 3);
    CHECK(right >= 2);
  }
}

TEST_CASE("no plan is right in all cases, and the known ones are right in theirs") {
  // The layouts of the known plans, with as many replicas as there are GPUs for them.
  for (const Case& its : portion(training_cases(), 2)) {
    const Configuration& known = its.reference;
    CHECK(judge(its, known).is_right());
    int right = 0;
    for (const Case& each : training_cases()) {
      TrainingPlan moved{.tp = known.tp,
                         .pp = known.pp,
                         .cp = known.cp,
                         .zero = known.zero,
                         .microbatch = known.microbatch,
                         .schedule = known.schedule,
                         .chunks = known.chunks,
                         .recompute = name_of(known.recompute)};
      moved.dp = each.task.ranks / (moved.tp * moved.pp * moved.cp);
      try {
        right += judge(each, possible(each, moved)).is_right();
      } catch (const Wrong&) {
      }
    }
    CAPTURE(known.text());
    CHECK(right >= 1);
    CHECK(right <= 2);
  }
}

TEST_CASE("impossible plans are refused in one line, whatever their numbers") {
  const Case& each = training_cases().front();
  const auto refusal = [&](const TrainingPlan& plan) -> std::string {
    try {
      possible(each, plan);
      return "possible";
    } catch (const Wrong& wrong) {
      return wrong.what();
    }
  };
  const TrainingPlan right{.dp = 4, .tp = 4, .pp = 2, .cp = 2, .zero = 1};
  CHECK(refusal(right) == "possible");
  const auto changed = [&](auto change) {
    TrainingPlan plan = right;
    change(plan);
    return refusal(plan).substr(each.name.size() + 2);
  };
  CHECK(changed([](TrainingPlan& p) { p.dp = 0; }) == "dp is 0");
  CHECK(changed([](TrainingPlan& p) { p.dp = 2; }) ==
        "dp 2 · tp 4 · pp 2 · cp 2 = 32 ranks, on 64 GPUs");
  CHECK(changed([](TrainingPlan& p) { p.zero = 4; }) == "zero is 4");
  CHECK(changed([](TrainingPlan& p) { p.zero = -1; }) == "zero is -1");
  CHECK(changed([](TrainingPlan& p) { p.schedule = ""; }) == "schedule is \"\"");
  CHECK(changed([](TrainingPlan& p) { p.schedule = "automatic"; }) == "schedule is \"automatic\"");
  CHECK(changed([](TrainingPlan& p) { p.recompute = "all"; }) == "recompute is \"all\"");
  CHECK(changed([](TrainingPlan& p) { p.microbatch = 3; }) ==
        "512 sequences do not divide into microbatches of 3 on 4 replicas");
  CHECK(
      changed([](TrainingPlan& p) { p.microbatch = 2'000'000'000; }).starts_with("512 sequences"));
  CHECK(changed([](TrainingPlan& p) { p.chunks = 2; }) == "1F1B with 2 chunks per rank");
  CHECK(changed([](TrainingPlan& p) { p.schedule = "interleaved"; }) ==
        "interleaved 1F1B with 1 chunk per rank");
  CHECK(changed([](TrainingPlan& p) {
          p.schedule = "interleaved";
          p.chunks = 1000;
        }) == "pp 2 · chunks 1000 = 2000 stages for 80 blocks");
  CHECK(changed([](TrainingPlan& p) {
          p.schedule = "dualpipe-v";
          p.chunks = 2;
          p.microbatch = 128;
        }) == "DualPipeV with 1 microbatch on 2 ranks");
  CHECK(changed([](TrainingPlan& p) {
          p.schedule = "zb-h1";
          p.zero = 2;
        }) == "ZeRO-2 with ZB-H1");
  CHECK(changed([](TrainingPlan& p) {
          p.tp = 16;
          p.dp = 1;
        }) == "tp 16 with 64 heads of queries and 8 of keys");
  CHECK(changed([](TrainingPlan& p) {
          p.cp = 4;
          p.dp = 2;
        }) == "cp 4 with sequences of 8192 tokens");
  CHECK(changed([](TrainingPlan& p) { p.recompute = "none"; }) == "cp 2 without recomputation");
}

TEST_CASE("whatever is possible can be judged and trained at toy scale") {
  // Random plans; most do not fit, and none may crash.
  std::mt19937 random{29};
  const auto up_to = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto schedules = offered_schedules();
  const char* recomputes[] = {"none", "selective", "full"};
  int possible_plans = 0;
  for (int trial = 0; possible_plans < lockstep::testing::portion_of(300, 8); ++trial) {
    REQUIRE(trial < 100'000);
    const Case& each = training_cases()[static_cast<std::size_t>(up_to(5))];
    TrainingPlan plan{.zero = up_to(4),
                      .microbatch = 1 << up_to(3),
                      .schedule = std::string{schedules[static_cast<std::size_t>(up_to(8))]},
                      .chunks = 1 + up_to(3),
                      .recompute = recomputes[up_to(3)]};
    for (int left = each.task.ranks; left > 1; left /= 2)
      plan.*(std::array{&TrainingPlan::dp, &TrainingPlan::tp, &TrainingPlan::pp,
                        &TrainingPlan::cp}[static_cast<std::size_t>(up_to(4))]) *= 2;
    Configuration chosen;
    try {
      chosen = possible(each, plan);
    } catch (const Wrong&) {
      continue;
    }
    ++possible_plans;
    CAPTURE(each.name);
    CAPTURE(chosen.text());
    const Judgement judgement = judge(each, chosen);
    CHECK(judgement.fits == (judgement.figures.peak <= 80'000'000'000));
    if (!judgement.fits)
      check_memory_verdict(each, judgement);
    else if (!judgement.is_right())
      check_time_verdict(each, judgement);

    const Configuration toy = on_toy_mesh(chosen);
    CHECK(toy.ranks() == toy_ranks);
    int dropped = 0;
    for (const auto axis :
         {&Configuration::tp, &Configuration::pp, &Configuration::cp, &Configuration::dp}) {
      CHECK((toy.*axis > 1) <= (chosen.*axis > 1));
      dropped += chosen.*axis > 1 && toy.*axis == 1;
    }
    CHECK(dropped <= 1);
    const PlannedRun run = toy_run(each, toy, 1 + random());
    Options options;
    options.plan = run.plan;
    std::vector<std::vector<float>> shares(toy_ranks);
    CHECK(on_all(options, [&](Rank& rank) {
            shares[static_cast<std::size_t>(rank.id)] = train_toy(rank, run);
            return std::string{};
          }) == "");
    CHECK(difference_from_one_device(run, shares) == "");
    // The judge notices a missing share.
    for (std::vector<float>& rank : shares)
      if (rank.front() != 0) {
        rank.front() = 0;
        break;
      }
    CHECK(difference_from_one_device(run, shares) != "");
  }
}

TEST_CASE("the numbers of the exercise's page are those of the models and the cluster") {
  const auto& cases = training_cases();
  const auto kilobytes = [](const Case& each) {
    const Footprint footprint{each.task.model, StageLayers::whole(each.task.model), 1};
    return static_cast<double>(footprint.block) / each.task.model.sequence * 1e-3;
  };
  const auto billions = [](const Case& each) {
    return static_cast<double>(each.task.model.parameter_count()) * 1e-9;
  };
  CHECK(kilobytes(cases[0]) == doctest::Approx(274).epsilon(0.005));
  CHECK(kilobytes(cases[2]) == doctest::Approx(520).epsilon(0.005));
  CHECK(kilobytes(cases[4]) == doctest::Approx(197).epsilon(0.005));
  CHECK(billions(cases[0]) == doctest::Approx(70.6).epsilon(0.001));
  CHECK(billions(cases[2]) == doctest::Approx(405.9).epsilon(0.001));
  CHECK(billions(cases[4]) == doctest::Approx(22.4).epsilon(0.001));
  const Cluster& h100 = cases[0].task.cluster;
  CHECK(h100.ranks_per_node == 8);
  CHECK(*h100.memory == 80'000'000'000);
  CHECK(h100.within.at(100'000'000).bandwidth == doctest::Approx(368e9).epsilon(0.002));
  CHECK(h100.between.bandwidth == 50e9);
  const Cluster& slow = cases[4].task.cluster;
  CHECK(slow.between.bandwidth == 6.25e9);
  CHECK(slow.shared->cards->bandwidth == 6.25e9);

  // ZeRO-3 moves 2 bytes per parameter three times for every microbatch.
  const Configuration sharded = possible(cases[4], {.dp = 32, .zero = 3, .microbatch = 2});
  const StepFigures figures = step_figures(planned_run(cases[4].task, sharded));
  const BytesSent& sent = figures.of_rank.begin()->second.bytes_sent;
  const double per_microbatch =
      static_cast<double>(sent[Operation::all_gather] + sent[Operation::reduce_scatter]) /
      sharded.microbatches(cases[4].task.batch);
  CHECK(per_microbatch == doctest::Approx(6 * 22.4e9 * 31 / 32).epsilon(0.05));
}

TEST_CASE("the search finds no plan that is more than 1 % better than the known one") {
  // Testing all cases takes minutes.
  const std::vector<std::size_t> order{4, 1, 2, 0, 3};
  for (const std::size_t i : portion(order, 2)) {
    const Case& each = training_cases()[i];
    const SearchResult found = search(each.task, {}, 40);
    REQUIRE(!found.plans.empty());
    const Picoseconds known = step_figures(planned_run(each.task, each.reference)).step;
    CAPTURE(each.name);
    CAPTURE(found.plans.front().configuration.text());
    CHECK(static_cast<double>(found.plans.front().figures.step) >=
          0.99 * static_cast<double>(known));
  }
}
