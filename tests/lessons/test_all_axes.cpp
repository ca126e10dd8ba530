#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

#include "tests/support/mesh_checks.h"
#include "tests/support/meta_checks.h"
#include "tests/support/portion.h"

// All axes on one mesh, with ranks as threads. tests/mpi runs the same checks with ranks as
// processes.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

LoggedAxes axes(int zero, bool sequence_parallel, ContextMethod method, Recompute recompute) {
  return {{{.sequence_parallel = sequence_parallel, .zero = zero, .bucket_bytes = small_buckets},
           method,
           recompute}};
}

/// A run: its mesh, its techniques, and how cp ranks divide sequences.
struct Case {
  MeshShape shape;
  LoggedAxes chosen;
  ContextLayout layout = ContextLayout::contiguous;
  bool tied = false;
  float clip = 0;
  DType dtype = DType::f32;
  MixtureOfExperts moe{.experts = 0};
  int ep = 1;

  /// Every run uses a separate log.
  Options options() {
    chosen.log = std::make_shared<RoutingRecord>();
    chosen.moe = moe;
    Options options = small_mesh(shape, tied, clip, chosen);
    options.plan.batch.context = layout;
    set_model(options.plan, &GptConfig::dtype, dtype);
    options.plan.mesh = options.plan.mesh.with_experts(ep);
    settle_experts(options, chosen);
    return options;
  }
};

/// Checks a run against one device, and against a second run, which must be bitwise identical.
void check_twice(Case each) {
  Outcome outcomes[2];
  for (Outcome& outcome : outcomes) {
    const Options options = each.options();
    CAPTURE(text_of(each.chosen));
    CHECK(on_all(options, [&](Rank& rank) {
            return check_mesh(rank, options, each.chosen, rank.id == 0 ? &outcome : nullptr);
          }) == "");
  }
  CHECK(compare(outcomes[0].losses, outcomes[0].parameters,
                {outcomes[1].losses, outcomes[1].parameters})
            .bitwise);
}

constexpr ContextMethod ring = ContextMethod::ring, ulysses = ContextMethod::ulysses,
                        gather = ContextMethod::gather;
constexpr ContextLayout zigzag = ContextLayout::zigzag;

}  // namespace

TEST_CASE("all axes on 16 and 32 ranks: near one device, bytes and memory as derived, repeatable") {
  const std::vector<Case> cases = {
      {{2, 2, 2, 2}, axes(0, true, ring, Recompute::full), zigzag},
      {{2, 2, 2, 2}, axes(1, true, ring, Recompute::full), zigzag, true, 0.5F},
      {{2, 2, 2, 4}, axes(1, true, ring, Recompute::full)},
      {{1, 2, 2, 4}, axes(2, false, ulysses, Recompute::selective)},
      {{2, 2, 4, 2}, axes(3, true, gather, Recompute::full), zigzag, true, 0.5F},
      {{1, 4, 2, 2}, axes(3, true, ulysses, Recompute::full)},
      {{4, 2, 2, 2}, axes(0, false, ring, Recompute::full), zigzag, true},
      {{2, 1, 4, 2}, axes(2, true, ring, Recompute::selective), zigzag, false, 0.5F},
      {{4, 1, 1, 4}, axes(1, false, gather, Recompute::full)},
      {{2, 2, 2, 2}, axes(2, true, ring, Recompute::full), zigzag, true, 0.5F, DType::bf16},
  };
  for (const Case& each : portion(cases, 1)) check_twice(each);
}

TEST_CASE("experts over dp x cp: near one device, which routes the tokens of each rank by itself") {
  const auto experts = [](int count, int k, double capacity, double balance = 0.01) {
    return MixtureOfExperts{
        .experts = count, .top_k = k, .capacity_factor = capacity, .balance = balance};
  };
  const std::vector<Case> cases = {
      {{2, 2, 2, 2},
       axes(0, true, ring, Recompute::full),
       zigzag,
       true,
       0.5F,
       DType::f32,
       experts(8, 2, 1),
       4},
      {{2, 2, 2, 2},
       axes(0, true, ring, Recompute::full),
       zigzag,
       false,
       0,
       DType::f32,
       experts(4, 2, 0),
       2},
      {{2, 2, 2, 4},
       axes(0, true, gather, Recompute::full),
       zigzag,
       true,
       0.5F,
       DType::f32,
       experts(8, 2, 1.25, 0.1),
       8},
      {{2, 1, 2, 2},
       axes(0, false, ulysses, Recompute::selective),
       ContextLayout::contiguous,
       true,
       0.5F,
       DType::f32,
       experts(4, 1, 1),
       4},
      {{1, 3, 1, 3},
       axes(0, true, ring, Recompute::selective),
       zigzag,
       false,
       0.5F,
       DType::f32,
       experts(6, 3, 0.5),
       3},
      {{4, 2, 1, 1},
       axes(0, true, ring, Recompute::none),
       ContextLayout::contiguous,
       false,
       0,
       DType::f32,
       experts(8, 1, 0),
       4},
      {{2, 1, 3, 1},
       axes(0, true, ring, Recompute::full),
       ContextLayout::contiguous,
       true,
       0.5F,
       DType::f32,
       experts(6, 2, 0),
       1},
      {{2, 2, 2, 2},
       axes(0, true, ring, Recompute::full),
       zigzag,
       true,
       0,
       DType::bf16,
       experts(4, 2, 0),
       4},
  };
  for (const Case& each : portion(cases, 1)) check_twice(each);
}

TEST_CASE("any two or three of the axes: near one device, bytes and memory as derived") {
  const std::vector<Case> cases = {
      {{1, 1, 2, 2}, axes(0, true, ring, Recompute::full), zigzag, true, 0.5F},
      {{2, 1, 1, 2}, axes(3, false, ring, Recompute::selective), zigzag, true, 0.5F},
      {{1, 2, 1, 3}, axes(2, false, gather, Recompute::full)},
      {{1, 3, 3, 1}, axes(0, true, ring, Recompute::none)},
      {{2, 1, 3, 1}, axes(1, false, ring, Recompute::none), ContextLayout::contiguous, true},
      {{1, 1, 3, 3}, axes(1, true, ring, Recompute::full)},
      {{3, 1, 1, 2}, axes(1, false, ulysses, Recompute::full), zigzag},
  };
  for (const Case& each : portion(cases, 1)) check_twice(each);
}

TEST_CASE("all axes in any order, with hybrid sharding over dp x cp") {
  const std::vector<std::pair<const char*, int>> orders = {
      {"cp,tp,pp,dp", 2}, {"pp,dp,cp,tp", 0}, {"dp,cp,tp,pp", 2}, {"tp,dp,pp,cp", 4}};
  for (const auto& [order, shard] : portion(orders, 1)) {
    Case each{{2, 2, 2, 2}, axes(3, true, ring, Recompute::full), zigzag, true, 0.5F};
    each.chosen.shard = shard;
    Options options = each.options();
    options.plan.mesh = options.plan.mesh.ordered(order);
    CAPTURE(order);
    CHECK(on_all(options, [&](Rank& rank) { return check_mesh(rank, options, each.chosen); }) ==
          "");
  }
}

TEST_CASE("meta: all axes match the CPU's times, bytes, memory and trace") {
  const std::vector<Case> cases = {
      {{2, 2, 2, 2}, axes(1, true, ring, Recompute::full), zigzag, true, 0.5F},
      {{1, 2, 2, 2}, axes(3, false, ulysses, Recompute::full)},
      {{2, 1, 2, 2}, axes(2, true, gather, Recompute::selective), zigzag},
  };
  for (Case each : portion(cases, 1)) {
    Options options = each.options();
    Cluster cluster = Cluster::load("classroom");
    cluster.ranks_per_node = 2;
    options.plan.modelled = {cluster};
    CHECK(cpu_against_meta(options, [&](Rank& rank, const Note& note) {
            const Corpus corpus = copies_corpus(options.plan.model());
            OnMesh mine{rank, options, each.chosen};
            for (int step = 0; step < 2; ++step) {
              rank.trace.set_step(step);
              mine.train(corpus, step);
              note();
            }
          }) == "");
  }
}

// Runs on the meta device, which counts every byte but computes nothing.
TEST_CASE("random meshes and techniques on all axes: bytes and peaks as derived") {
  std::mt19937 random{16};
  const auto up_to = [&](int n) {
    return 1 + static_cast<int>(random() % static_cast<unsigned>(n));
  };
  for (int trial = 0; trial < portion_of(300, 30); ++trial) {
    const MeshShape shape{up_to(4), up_to(3), up_to(4), up_to(4)};
    const auto method = all_context_methods[up_to(3) - 1];
    LoggedAxes chosen = axes(up_to(4) - 1, up_to(3) > 1, method,
                             static_cast<Recompute>(shape.cp > 1 ? up_to(2) : up_to(3) - 1));
    chosen.bucket_bytes = up_to(3) == 1 ? 1 : 1000 * up_to(60);
    const int replicas = shape.dp * shape.cp;
    if (const int size = up_to(replicas); chosen.zero > 0 && replicas % size == 0)
      chosen.shard = size;
    Options options = on_meta(small_mesh(shape, up_to(2) == 1, up_to(2) == 1 ? 0.5F : 0, chosen));
    options.output.trace = "none";
    options.plan.batch.context = up_to(2) == 1 ? zigzag : ContextLayout::contiguous;
    const char* orders[] = {"tp,cp,dp,pp", "pp,dp,cp,tp", "dp,tp,pp,cp", "cp,tp,dp,pp"};
    options.plan.mesh = options.plan.mesh.ordered(orders[up_to(4) - 1]);
    set_model(options.plan, random_model(shape, shape.tp * shape.cp, 2 * shape.tp * shape.cp,
                                         options.plan.model().tied, up_to));
    options.plan.batch.microbatches = up_to(5);
    options.plan.batch.sequences = shape.dp * options.plan.batch.microbatches * up_to(2);
    if (chosen.zero == 0) {
      int ep = up_to(replicas);
      while (replicas % ep != 0) --ep;
      options.plan.mesh = options.plan.mesh.with_experts(ep);
      chosen.moe = {
          .experts = ep * up_to(3),
          .capacity_factor = up_to(2) == 1 ? 0 : 0.5 * up_to(3),
          .synthetic = up_to(2) == 1 ? SyntheticRouting::zipf : SyntheticRouting::balanced,
          .seed = random()};
      chosen.moe.capacity_factor = std::min<double>(chosen.moe.capacity_factor, chosen.moe.experts);
      chosen.moe.top_k = up_to(std::min(3, chosen.moe.experts));
      settle_experts(options, chosen);
    }
    CAPTURE(trial);
    CHECK(on_all(options, [&](Rank& rank) {
            std::string wrong;
            const Corpus corpus = copies_corpus(options.plan.model());
            OnMesh mine{rank, options, chosen};
            for (int step = 0; step < 2; ++step) {
              const BytesSent before = rank.transport->bytes_sent();
              rank.memory.reset_peak();
              mine.train(corpus, step);
              compare_with_prediction(rank, before, mine.predicted, [&](const std::string& what) {
                wrong +=
                    fmt::format("{}, {}, m {}, rank {}: {}\n", rank.plan.mesh.json(),
                                text_of(chosen), options.plan.batch.microbatches, rank.id, what);
              });
            }
            return wrong;
          }) == "");
  }
}
