// Folded runs: a few ranks stand for all ranks, with the same times.

#include <doctest/doctest.h>

#include <random>

#include "core/base/error.h"
#include "core/comm/shared/folded_links.h"
#include "core/plan/model_presets.h"
#include "lessons/17_choosing/plan/evaluate.h"
#include "tests/support/complaints.h"

using namespace lockstep;
using lockstep::testing::complaint_of;

namespace {

/// A cluster with contention on all links.
Cluster contended(int per_node, bool cards, bool leaves) {
  Cluster cluster{.name = "contended",
                  .nodes = 64,
                  .ranks_per_node = per_node,
                  .flops = 1e13,
                  .memory_bandwidth = 1e12,
                  .launch_seconds = 1e-7,
                  .within = {1e-6, 3e10},
                  .between = {5e-6, 1e10},
                  .shared = SharedLinks{.port = 2.5e10, .uplink = 3e10},
                  .library_collectives = true};
  if (cards) {
    SharedLinks::Cards found{2, 1.2e10, {}};
    for (int rank = 0; rank < per_node; ++rank) found.of_rank.push_back(rank * 2 / per_node);
    cluster.shared->cards = found;
  }
  if (leaves) cluster.shared->leaves = SharedLinks::Leaves{2, cards, 3};
  cluster.shared->kernels_beside_collectives = 1.3;
  return cluster;
}

TrainingTask toy(int layers = 4) {
  TrainingTask task;
  task.model = {.layers = layers,
                .hidden = 128,
                .heads = 8,
                .sequence = 64,
                .vocabulary = 256,
                .llama = LlamaConfig{.kv_heads = 8, .mlp_width = 256}};
  task.batch = 96;
  task.bucket_bytes = 50'000;
  return task;
}

/// The times of all ranks of a folded and of an unfolded replay.
void check_equal(const TrainingTask& task, const Configuration& configuration,
                 const Folding& folding) {
  const PlannedRun run = planned_run(task, configuration);
  const RunOperations all = record_step(run, {}), some = record_step(run, folding);
  const Scenario scenario{all.modelled};
  const Replay whole{all, scenario}, folded{some, scenario};
  CHECK(folded.step_time(0) == whole.step_time(0));
  for (int rank = 0; rank < run.plan.mesh.ranks(); ++rank) {
    const int stands_for_it = folding.representative(rank);
    const std::size_t last = all.ranks[static_cast<std::size_t>(rank)].sections.size() - 1;
    INFO("rank " << rank);
    CHECK(folded.section(stands_for_it, last).end == whole.section(rank, last).end);
  }
}

}  // namespace

TEST_CASE("A shift takes a rank to its representative, and others to their places beside it") {
  // tp 4 (stride 1), dp 6 (stride 4); ranks that differ by 2 along dp are equal.
  const Folding folding{{{4, 6, 2}}};
  CHECK(folding.times() == 3);
  CHECK(folding.representative(4 * 5 + 3) == 4 * 1 + 3);
  CHECK(folding.keeps(7));
  CHECK_FALSE(folding.keeps(8));
  // Rank (dp 4, tp 1) maps to (0, 1); its neighbour (dp 5, tp 1) maps to (1, 1), and (3, 1) wraps
  // around to (5, 1).
  CHECK(folding.seen_from(17, 21) == 5);
  CHECK(folding.seen_from(17, 13) == 21);
  CHECK(folding.seen_from(1, 13) == 13);
  CHECK_FALSE(Folding{{{1, 4, 4}}}.folds());
}

TEST_CASE("A cluster is symmetric if the shifts map nodes, cards and leaves to their like") {
  const Cluster plain = contended(8, false, false), cards = contended(8, true, false),
                leaves = contended(8, false, true);
  // 64 ranks, tp 8 within nodes, dp 8.
  const Folding dp{{{8, 8, 1}}}, tp{{{1, 8, 1}}}, half_dp{{{8, 8, 2}}}, half_tp{{{1, 8, 4}}};
  CHECK(is_symmetric(dp, plain, 64));
  CHECK(is_symmetric(tp, plain, 64));
  CHECK(is_symmetric(dp, cards, 64));
  CHECK_FALSE(is_symmetric(tp, cards, 64));  // ranks 0 to 3 share a card
  CHECK(is_symmetric(half_tp, cards, 64));
  CHECK_FALSE(is_symmetric(dp, leaves, 64));  // nodes 0 and 1 share a leaf
  CHECK(is_symmetric(half_dp, leaves, 64));
  // tp 4: two replicas share a node.
  CHECK_FALSE(is_symmetric(Folding{{{4, 16, 1}}}, plain, 64));
  CHECK(is_symmetric(Folding{{{4, 16, 2}}}, plain, 64));
}

TEST_CASE("Ranks with other devices do not fold") {
  Cluster cluster = contended(8, false, false);
  const Folding dp{{{8, 8, 1}}}, tp{{{1, 8, 1}}}, half_dp{{{8, 8, 2}}};
  // The nodes of dp alternate between two devices.
  cluster.groups = {{.name = "odd", .ranks = {}}};
  for (int rank = 0; rank < 64; ++rank)
    if (rank / 8 % 2 == 1) cluster.groups[0].ranks.push_back(rank);
  CHECK_FALSE(is_symmetric(dp, cluster, 64));
  CHECK(is_symmetric(half_dp, cluster, 64));
  CHECK(is_symmetric(tp, cluster, 64));
  cluster.groups[0].ranks.pop_back();
  CHECK_FALSE(is_symmetric(half_dp, cluster, 64));
  CHECK_FALSE(is_symmetric(tp, cluster, 64));
}

TEST_CASE("A folded run has the times of the whole run, to the picosecond") {
  for (const bool cards : {false, true})
    for (const bool leaves : {false, true}) {
      CAPTURE(cards);
      CAPTURE(leaves);
      TrainingTask task = toy();
      task.cluster = contended(4, cards, leaves);
      const Configuration c{.dp = 4, .tp = 4, .pp = 2, .zero = 0, .microbatch = 4};
      const PlannedRun run = planned_run(task, c);
      const Folding folding = folding_of(run);
      CHECK(folding.times() == (leaves ? 2 : 4) * (cards ? 2 : 4));
      check_equal(task, c, folding);
    }
}

TEST_CASE("Links that are not shared fold, too") {
  TrainingTask task = toy();
  task.cluster = Cluster::load("classroom");
  const Configuration c{.dp = 8, .tp = 4, .pp = 2, .zero = 0, .microbatch = 2};
  const Folding folding = folding_of(planned_run(task, c));
  CHECK(folding.times() == 16);
  check_equal(task, c, folding);
}

TEST_CASE("Several stages per rank, split backward passes and sequences") {
  TrainingTask task = toy(8);
  task.cluster = contended(8, true, false);
  check_equal(task,
              {.dp = 4, .tp = 2, .pp = 2, .microbatch = 4, .schedule = "interleaved", .chunks = 2},
              Folding{{{2, 4, 4}, {1, 2, 2}}});
  for (const char* schedule : {"zb-h1", "zb-v"}) {
    const Configuration c{.dp = 4,
                          .tp = 2,
                          .pp = 2,
                          .cp = 2,
                          .microbatch = 4,
                          .schedule = schedule,
                          .chunks = find_schedule(schedule)->least_chunks};
    const Folding folding = folding_of(planned_run(task, c));
    CHECK(folding.times() > 1);
    check_equal(task, c, folding);
  }
}

TEST_CASE("Under ZeRO, a run is exact if its folded replicas own the same, and close otherwise") {
  TrainingTask task = toy();
  task.cluster = contended(8, false, false);
  Configuration c{.dp = 8, .tp = 2, .pp = 2, .zero = 1, .sequence_parallel = false};
  CHECK(folding_of(planned_run(task, c)).folds());
  check_equal(task, c, folding_of(planned_run(task, c)));

  // With sequence parallelism, the replica that owns the norms sums their gradients, and only some
  // replicas own any.
  c.sequence_parallel = true;
  CHECK_FALSE(folding_of(planned_run(task, c)).folds());
  CHECK(step_figures(planned_run(task, c)).exact);

  task.batch = 8 * 600;  // too much work to run every rank
  const PlannedRun run = planned_run(task, c);
  CHECK(folding_of(run).folds());
  const StepFigures folded = step_figures(run);
  CHECK_FALSE(folded.exact);
  const RunOperations all = record_step(run, {});
  const Scenario scenario{all.modelled};
  CHECK(static_cast<double>(folded.step) ==
        doctest::Approx(static_cast<double>(Replay{all, scenario}.step_time(0))).epsilon(1e-4));
}

TEST_CASE("A folding that does not fit is refused") {
  TrainingTask task = toy();
  task.cluster = contended(4, true, false);
  const Configuration c{.dp = 4, .tp = 4, .pp = 2, .microbatch = 4};
  const PlannedRun run = planned_run(task, c);
  const Scenario scenario{*run.plan.modelled};
  const auto replay = [&](const Folding& folding) {
    const RunOperations operations = record_step(run, folding);
    const Replay replayed{operations, scenario};
  };
  CHECK(complaint_of<UsageError>([&] {
          replay(Folding{{{1, 4, 1}}});
        }) == "these operations can't be replayed: folded ranks have different links or devices");
  // Stages compute different layers: their messages do not match.
  CHECK_THROWS_AS(replay(Folding{{{16, 2, 1}}}), UsageError);
}
