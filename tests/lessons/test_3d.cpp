#include <doctest/doctest.h>

#include <random>
#include <utility>
#include <vector>

#include "tests/support/mesh_checks.h"
#include "tests/support/meta_checks.h"
#include "tests/support/portion.h"

// Data, pipeline and tensor parallelism on one mesh, with ranks as threads. tests/mpi runs the same
// checks with ranks as processes.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Checks a run against one device.
Outcome check(const Options& options, const Composition& chosen) {
  Outcome outcome;
  CHECK(on_all(options, [&](Rank& rank) {
          return check_mesh(rank, options, chosen, rank.id == 0 ? &outcome : nullptr);
        }) == "");
  return outcome;
}
Outcome check(const MeshShape& shape, const Composition& chosen, bool tied = false,
              float clip = 0) {
  return check(small_mesh(shape, tied, clip, chosen), chosen);
}

/// Draws a schedule for `options`, and adapts the layers and microbatches to it.
Schedule random_schedule(Options& options, const Composition& chosen, auto&& up_to) {
  const std::vector<KnownSchedule>& all = known_schedules();
  const KnownSchedule& known =
      all[static_cast<std::size_t>(up_to(static_cast<int>(all.size()))) - 1];
  const int chunks = std::min(known.most_chunks, known.least_chunks + up_to(2) - 1);
  const int pp = options.plan.mesh.size(Axis::pp);
  set_model(options.plan, &GptConfig::layers, options.plan.model().layers + pp * (chunks - 1));
  int& m = options.plan.batch.microbatches;
  m = std::max(m, known.least_microbatches_per_rank * pp);
  options.plan.batch.sequences = options.plan.mesh.size(Axis::dp) * m;
  return place_schedule(options, chosen, known, chunks);
}

Outcome check_scheduled(const Scheduled& run, const Composition& chosen) {
  Outcome outcome;
  CHECK(on_all(run.options, [&](Rank& rank) {
          return check_mesh(rank, run.options, chosen, rank.id == 0 ? &outcome : nullptr,
                            &run.schedule);
        }) == "");
  return outcome;
}

/// Checks a run against one device, and against a second run, which must be bitwise identical.
void check_twice(const MeshShape& shape, const Composition& chosen, bool tied = false,
                 float clip = 0) {
  const Outcome first = check(shape, chosen, tied, clip);
  const Outcome second = check(shape, chosen, tied, clip);
  CHECK(compare(first.losses, first.parameters, {second.losses, second.parameters}).bitwise);
}

const std::vector<int> zero_stages = {0, 1, 2, 3};
const std::vector<MeshShape> shapes = {{2, 2, 2}, {1, 2, 4}, {4, 1, 2}, {2, 4, 1}};

Composition with_zero(int stage, int shard = 0) {
  return {.zero = stage, .shard = shard, .bucket_bytes = small_buckets};
}

}  // namespace

TEST_CASE("dp x pp x tp: near one device, bytes and memory as derived, repeatable") {
  for (const auto& [zero, shape] : portion(combinations(zero_stages, shapes), 4))
    check_twice(shape, with_zero(zero));
}

// The momentum after one step shows the clipped gradients, and therefore the norm: it must count
// each element once, although tp ranks hold replicas of some parameters, dp ranks of all or of
// none, and both ends of the pipeline hold the tied table.
TEST_CASE("dp x pp x tp with the norm of the whole model, and with tied weights") {
  for (const auto& [zero, shape] : portion(combinations(zero_stages, shapes), 2))
    check(shape, with_zero(zero), /*tied=*/true, /*clip=*/0.5F);
  check(MeshShape{2, 2, 2}, with_zero(0), /*tied=*/false, /*clip=*/0.5F);
  check(MeshShape{1, 3, 3}, with_zero(0), /*tied=*/true);
  check(MeshShape{2, 3, 1}, with_zero(3), /*tied=*/true);
}

TEST_CASE("dp x pp x tp in any order of the axes, and in bf16") {
  for (const int zero : portion<int>({3, 0, 1, 2}, 1)) {
    Options options = small_mesh({2, 2, 2}, /*tied=*/true, /*clip=*/0.5F);
    options.plan.mesh = options.plan.mesh.ordered("pp,dp,tp,cp");
    check(options, with_zero(zero));
    set_model(options.plan, &GptConfig::dtype, DType::bf16);
    check(options, with_zero(zero));
  }
}

TEST_CASE("hybrid sharding: rows of dp ranks share the states, columns replicate them") {
  for (const int zero : portion<int>({3, 1, 2}, 1)) {
    check_twice(MeshShape{4, 1, 2}, with_zero(zero, 2));
    check(MeshShape{4, 2, 1}, with_zero(zero, 2), /*tied=*/true, /*clip=*/0.5F);
  }
  Options six = small_mesh({6, 1, 1});
  six.plan.batch.sequences = 18;
  check(six, with_zero(3, 3));
}

TEST_CASE("sequence parallelism on the mesh") {
  for (const auto& [zero, shape] :
       portion(combinations(zero_stages, std::vector(shapes.begin(), shapes.begin() + 3)), 2)) {
    Composition chosen = with_zero(zero, shape.dp == 4 && zero > 0 ? 2 : 0);
    chosen.sequence_parallel = true;
    const bool tied = zero % 2 == 1;
    check(shape, chosen, tied, tied ? 0.5F : 0);
  }
}

// A joined pair takes both inputs before it runs, and sends both results afterwards.
TEST_CASE("without dp and tp, what is in flight are the pipeline's own messages") {
  for (const KnownSchedule& known : known_schedules())
    for (const int p : portion<int>({1, 2, 3, 8, 4, 6}, 4))
      for (const int m : portion<int>({1, 3, 16, 2, 5, 8, 17}, 3))
        for (const int chunks : {1, 2, 3}) {
          const PipelineSize size{p, chunks, m};
          if (!refusal(known, size).empty()) continue;
          Options options = small_mesh({1, p, 1});
          set_model(options.plan, &GptConfig::layers, size.stages());
          options.plan.batch.microbatches = m;
          options.plan.batch.sequences = m;
          const Schedule schedule = place_schedule(options, {}, known, chunks);
          const Plan plan = options.plan;
          for (int rank = 0; rank < p; ++rank) {
            const Predicted predicted = predict_3d(plan, plan.place(rank), schedule, {});
            CAPTURE(known.name);
            CAPTURE(p);
            CAPTURE(m);
            CAPTURE(chunks);
            CHECK(*predicted.peak_bytes[MemoryCategory::communication] ==
                  MessagePlan{schedule, rank}.peak_buffers() * plan.boundary(m).bytes());
          }
        }
}

TEST_CASE("any schedule: near one device, bytes and memory as derived, repeatable") {
  const std::vector<std::pair<MeshShape, int>> meshes{
      {{2, 2, 2}, 5}, {{2, 2, 2}, 4}, {{1, 3, 2}, 7}};
  int number = 0;
  for (const auto& [which, mesh] :
       portion(combinations(schedules_on_mesh, meshes), schedules_on_mesh.size())) {
    Composition chosen = with_zero(++number % 2);
    chosen.sequence_parallel = number % 4 > 1;
    const bool tied = number % 3 > 0;
    const Scheduled run = scheduled(mesh.first, which.first, which.second, mesh.second, chosen,
                                    tied, tied ? 0.5F : 0);
    const Outcome first = check_scheduled(run, chosen);
    if (!all_cases() && number > 2) continue;
    const Outcome second = check_scheduled(run, chosen);
    CHECK(compare(first.losses, first.parameters, {second.losses, second.parameters}).bitwise);
  }
}

TEST_CASE("hybrid sharding of several stages per rank") {
  for (const char* word : portion<const char*>({"interleaved", "zb-v"}, 1)) {
    Composition chosen = with_zero(1, 2);
    chosen.sequence_parallel = true;
    check_scheduled(scheduled({4, 2, 1}, word, 2, 4, chosen, /*tied=*/true, /*clip=*/0.5F), chosen);
    check_scheduled(scheduled({4, 1, 2}, word, 2, 4, chosen), chosen);
  }
}

TEST_CASE("meta: dp x pp x tp matches the CPU's times, bytes, memory and trace") {
  for (const int zero : {0, 1, 2, 3}) {
    const bool tied = zero % 2 == 1;
    Composition chosen = with_zero(zero, zero == 3 ? 2 : 0);
    chosen.sequence_parallel = zero >= 2;
    Options options = small_mesh({zero == 3 ? 4 : 2, 2, 2}, tied, tied ? 0.5F : 0, chosen);
    Cluster cluster = Cluster::load("classroom");
    cluster.ranks_per_node = 2;
    options.plan.modelled = {cluster};
    CHECK(cpu_against_meta(options, [&](Rank& rank, const Note& note) {
            const Corpus corpus = copies_corpus(options.plan.model());
            OnMesh mine{rank, options, chosen};
            for (int step = 0; step < 2; ++step) {
              rank.trace.set_step(step);
              mine.train(corpus, step);
              note();
            }
          }) == "");
  }
}

TEST_CASE("meta: any schedule matches the CPU's times, bytes, memory and trace") {
  for (const auto& [word, chunks] : portion(schedules_on_mesh, 4)) {
    Composition chosen = with_zero(1);
    chosen.sequence_parallel = true;
    const Scheduled run = scheduled({2, 2, 2}, word, chunks, 4, chosen, /*tied=*/true, /*clip=*/1);
    CHECK(cpu_against_meta(run.options, [&](Rank& rank, const Note& note) {
            const Corpus corpus = copies_corpus(run.options.plan.model());
            OnMesh mine{rank, run.options, chosen, &run.schedule};
            mine.train(corpus, 0);
            note();
          }) == "");
  }
}

// Runs on the meta device, which counts every byte but computes nothing.
TEST_CASE("random meshes, techniques and schedules: bytes and peaks as derived") {
  std::mt19937 random{15};
  const auto up_to = [&](int n) {
    return 1 + static_cast<int>(random() % static_cast<unsigned>(n));
  };
  for (int trial = 0; trial < portion_of(200, 40); ++trial) {
    const MeshShape shape{up_to(6), up_to(4), up_to(4)};
    Composition chosen{.sequence_parallel = up_to(2) == 1,
                       .zero = up_to(4) - 1,
                       .bucket_bytes = up_to(3) == 1 ? 1 : 1000 * up_to(60)};
    if (const int size = up_to(shape.dp); chosen.zero > 0 && shape.dp % size == 0)
      chosen.shard = size;
    Options options = on_meta(small_mesh(shape, up_to(2) == 1, up_to(2) == 1 ? 0.5F : 0, chosen));
    options.output.trace = "none";
    const char* orders[] = {"tp,cp,dp,pp", "pp,dp,cp,tp", "dp,tp,pp,cp"};
    options.plan.mesh = options.plan.mesh.ordered(orders[up_to(3) - 1]);
    set_model(options.plan,
              random_model(shape, shape.tp, shape.tp, options.plan.model().tied, up_to));
    options.plan.batch.microbatches = up_to(5);
    const Schedule schedule = chosen.zero > 1 || up_to(3) == 1
                                  ? one_f_one_b(shape.pp, options.plan.batch.microbatches)
                                  : random_schedule(options, chosen, up_to);
    options.plan.batch.sequences = shape.dp * options.plan.batch.microbatches * up_to(2);
    CAPTURE(trial);
    CHECK(on_all(options, [&](Rank& rank) {
            std::string wrong;
            const Corpus corpus = copies_corpus(options.plan.model());
            OnMesh mine{rank, options, chosen, &schedule};
            for (int step = 0; step < 2; ++step) {
              const BytesSent before = rank.transport->bytes_sent();
              rank.memory.reset_peak();
              mine.train(corpus, step);
              compare_with_prediction(rank, before, mine.predicted, [&](const std::string& what) {
                wrong += fmt::format("{}, {}, {} of {} stages, m {}, rank {}: {}\n",
                                     rank.plan.mesh.json(), text_of(chosen), schedule.name,
                                     schedule.stages, schedule.microbatches, rank.id, what);
              });
            }
            return wrong;
          }) == "");
  }
}
