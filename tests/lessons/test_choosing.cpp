#include <doctest/doctest.h>

#include <algorithm>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "lessons/17_choosing/configuration_flags.h"
#include "lessons/17_choosing/prediction.h"
#include "tests/support/mesh_checks.h"
#include "tests/support/meta_checks.h"
#include "tests/support/portion.h"

// Tests any configuration of lesson 17: a mesh of all axes, with any schedule along pp.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Lesson 16's techniques, with the prediction of lesson 17.
struct Configured : LoggedAxes {};
Predicted predicted_step(const RankContext& rank, const Schedule& schedule,
                         const Configured& chosen) {
  return predict_configuration(rank, schedule, chosen, *chosen.log);
}

/// A configuration, and the settings of its run.
struct Configuration {
  Options options;
  Configured chosen;
  Schedule schedule{};
};

/// Generates the schedule, once the other settings are known.
void set_schedule(Configuration& run, const KnownSchedule& known, int chunks) {
  Plan& plan = run.options.plan;
  const PipelineSize size{plan.mesh.size(Axis::pp), chunks, plan.batch.microbatches};
  plan.rank_of_stage = placement_of(known, size);
  const auto times = [&](const Plan& placed, int m) {
    return times_of_stages(placed, m, run.chosen);
  };
  run.schedule = known.generate(request_for(known, plan, size, 0, times));
}

/// Returns a configuration of a small model on `shape`, with two microbatches per stage.
Configuration configuration(const MeshShape& shape, const char* word, int chunks,
                            Recompute recompute, int experts = 0) {
  Configuration run;
  run.chosen.sequence_parallel = true;
  run.chosen.bucket_bytes = small_buckets;
  run.chosen.recompute = recompute;
  run.chosen.moe.experts = experts;
  run.options = small_mesh(shape, /*tied=*/true, /*clip=*/0.5F, run.chosen);
  BatchGeometry& batch = run.options.plan.batch;
  batch.microbatches = 2 * shape.pp;
  batch.sequences = shape.dp * batch.microbatches;
  set_model(run.options.plan, &GptConfig::layers, shape.pp * chunks + 1);
  settle_experts(run.options, run.chosen);
  set_schedule(run, *find_schedule(word), chunks);
  return run;
}

/// Draws numbers from 1 to an argument.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  int operator()(int n) { return 1 + static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool coin() { return (*this)(2) == 1; }

 private:
  std::mt19937 random_;
};

/// Draws experts, which the ranks of dp x cp divide.
void draw_experts(Draw& up_to, Configuration& run, int replicas, bool on_meta) {
  int ep = up_to(replicas);
  while (replicas % ep != 0) --ep;
  run.options.plan.mesh = run.options.plan.mesh.with_experts(ep);
  MixtureOfExperts& moe = run.chosen.moe;
  moe.experts = ep * up_to(3);
  moe.top_k = up_to(std::min(3, moe.experts));
  moe.capacity_factor = up_to.coin() ? 0 : std::min(0.5 * up_to(3), double{1} * moe.experts);
  if (on_meta && up_to.coin()) moe.synthetic = SyntheticRouting::zipf;
}

/// Draws a mesh, a model, a schedule and all techniques.
Configuration draw_configuration(Draw& up_to, bool on_meta) {
  const MeshShape shape{up_to(on_meta ? 4 : 2), up_to(3), up_to(on_meta ? 3 : 2),
                        up_to(on_meta ? 3 : 2)};
  const std::vector<KnownSchedule>& all = known_schedules();
  const KnownSchedule& known =
      all[static_cast<std::size_t>(up_to(static_cast<int>(all.size()))) - 1];
  const int chunks =
      up_to.coin() ? known.least_chunks : std::min(known.most_chunks, known.least_chunks + 1);
  Configuration run;
  Configured& chosen = run.chosen;
  chosen.sequence_parallel = up_to.coin();
  chosen.zero = up_to(known.word == "1f1b" ? 4 : 2) - 1;
  chosen.bucket_bytes = up_to(3) == 1 ? 1 : 1000 * up_to(60);
  chosen.method = all_context_methods[up_to(3) - 1];
  chosen.recompute = static_cast<Recompute>(shape.cp > 1 ? up_to(2) : up_to(3) - 1);
  const int replicas = shape.dp * shape.cp;
  if (const int size = up_to(replicas); chosen.zero > 0 && replicas % size == 0)
    chosen.shard = size;

  run.options = small_mesh(shape, up_to.coin(), up_to.coin() ? 0.5F : 0, chosen);
  Plan& plan = run.options.plan;
  const char* orders[] = {"tp,cp,dp,pp", "pp,dp,cp,tp", "dp,tp,pp,cp", "cp,tp,dp,pp"};
  plan.mesh = plan.mesh.ordered(orders[up_to(4) - 1]);
  plan.batch.context = up_to.coin() ? ContextLayout::zigzag : ContextLayout::contiguous;
  GptConfig model =
      random_model(shape, shape.tp * shape.cp, 2 * shape.tp * shape.cp, plan.model().tied, up_to);
  model.layers = shape.pp * chunks + up_to(3) - 1;
  // If a norm covers only a few elements, rounding errors are too large for a comparison with one
  // device.
  if (!on_meta) model.hidden = std::max(model.hidden, 8 * model.heads);
  set_model(plan, model);
  plan.batch.microbatches = std::max(up_to(5), known.least_microbatches_per_rank * shape.pp);
  plan.batch.sequences = shape.dp * plan.batch.microbatches * up_to(2);
  if (chosen.zero == 0 && up_to.coin()) draw_experts(up_to, run, replicas, on_meta);
  settle_experts(run.options, chosen);
  set_schedule(run, known, chunks);
  return run;
}

std::string check(const Configuration& run, Outcome* outcome = nullptr) {
  return on_all(run.options, [&](Rank& rank) {
    return check_mesh(rank, run.options, run.chosen, rank.id == 0 ? outcome : nullptr,
                      &run.schedule);
  });
}

}  // namespace

TEST_CASE("random configurations: near one device, bytes and peaks as derived") {
  Draw up_to{17};
  for (int trial = 0; trial < portion_of(300, 30); ++trial) {
    Configuration run = draw_configuration(up_to, /*on_meta=*/false);
    run.options.run.steps = 2;
    CAPTURE(trial);
    CHECK(check(run) == "");
  }
}

// Runs on the meta device, which counts every byte but computes nothing.
TEST_CASE("random configurations on larger meshes: bytes and peaks as derived") {
  Draw up_to{1717};
  for (int trial = 0; trial < portion_of(300, 25); ++trial) {
    Configuration run = draw_configuration(up_to, /*on_meta=*/true);
    run.options = on_meta(run.options);
    run.options.output.trace = "none";
    CAPTURE(trial);
    CHECK(on_all(run.options, [&](Rank& rank) {
            std::string wrong;
            const Corpus corpus = copies_corpus(run.options.plan.model());
            OnMesh mine{rank, run.options, run.chosen, &run.schedule};
            for (int step = 0; step < 2; ++step) {
              const BytesSent before = rank.transport->bytes_sent();
              rank.memory.reset_peak();
              mine.train(corpus, step);
              compare_with_prediction(rank, before, mine.predicted, [&](const std::string& what) {
                wrong += fmt::format("{}, {}, {}, m {}, rank {}: {}\n", rank.plan.mesh.json(),
                                     text_of(run.chosen), run.schedule.name,
                                     run.schedule.microbatches, rank.id, what);
              });
            }
            return wrong;
          }) == "");
  }
}

TEST_CASE("schedules of all kinds train, and have the same bits whatever backward recomputes") {
  const std::vector<std::pair<const char*, int>> schedules = {
      {"zb-v", 2}, {"interleaved", 2}, {"dualpipe-v", 2}, {"zb-h1", 2}, {"zb-h2", 1}};
  for (const auto& [word, chunks] : portion(schedules, 2)) {
    Outcome outcomes[3];
    for (const Recompute mode : {Recompute::none, Recompute::selective, Recompute::full})
      CHECK(check(configuration({1, 2, 2, 1}, word, chunks, mode),
                  &outcomes[static_cast<int>(mode)]) == "");
    for (const Outcome& other : outcomes)
      CHECK(compare(outcomes[0].losses, outcomes[0].parameters, {other.losses, other.parameters})
                .bitwise);
  }
}

TEST_CASE("meta: a configuration matches the CPU's times, bytes, memory and trace") {
  const std::vector<Configuration> runs = {
      configuration({2, 2, 1, 2}, "zb-v", 2, Recompute::full),
      configuration({1, 2, 2, 2}, "interleaved", 2, Recompute::selective),
      configuration({1, 3, 2, 1}, "dualpipe-v", 2, Recompute::full)};
  for (const Configuration& run : portion(runs, 2))
    CHECK(cpu_against_meta(run.options, [&](Rank& rank, const Note& note) {
            const Corpus corpus = copies_corpus(run.options.plan.model());
            OnMesh mine{rank, run.options, run.chosen, &run.schedule};
            mine.train(corpus, 0);
            note();
          }) == "");
}

TEST_CASE("the times of stages include the passes that recomputation repeats") {
  for (const int tp : {1, 2})
    for (const Recompute mode : {Recompute::none, Recompute::selective, Recompute::full}) {
      Configuration run = configuration({1, 2, tp, 1}, "zb-h1", 1, mode);
      run.options.plan.modelled = {Cluster::load("ethernet")};
      run.options = on_meta(run.options);
      const PipelineTimes times =
          times_of_stages(run.options.plan, run.schedule.microbatches, run.chosen);
      CHECK(on_all(run.options, [&](Rank& rank) -> std::string {
              MeshTraining training{rank, run.chosen};
              PipelineExecutor pipeline = training.pipeline(run.schedule);
              const Corpus corpus = copies_corpus(run.options.plan.model());
              Batch mine = corpus.batch(1, 0, rank.plan.samples(rank.place));
              move_to(rank.device, mine);
              training.step(pipeline, mine);
              const StageTimes& stage =
                  times.stages[static_cast<std::size_t>(rank.place.only_stage())];
              const auto busy = static_cast<double>(pipeline.ran().busy);
              const auto estimated =
                  static_cast<double>(run.schedule.microbatches * (stage.forward + stage.backward));
              if (std::abs(busy - estimated) <= (tp == 1 ? 1e-9 : 0.05) * busy) return "";
              return fmt::format("tp {}, {}, rank {}: takes {}, estimated {}\n", tp,
                                 lockstep::name_of(mode), rank.id, busy, estimated);
            }) == "");
    }
}

TEST_CASE("a bubble that depends on unknown times has a formula, but no value") {
  const auto bubble_of = [](const Configuration& run) {
    std::mutex mutex;
    Predicted predicted;
    CHECK(on_all(on_meta(run.options), [&](Rank& rank) -> std::string {
            Predicted mine = predict_configuration(rank, run.schedule, run.chosen, *run.chosen.log);
            const std::lock_guard lock{mutex};
            if (rank.id == 0) predicted = std::move(mine);
            return "";
          }) == "");
    CHECK(!predicted.formula.empty());
    return predicted.bubble;
  };
  const auto share = doctest::Approx(1.0 / 5);  // p = 2, m = 4
  CHECK(bubble_of(configuration({1, 2, 1, 2}, "1f1b", 1, Recompute::full)) == share);
  CHECK(bubble_of(configuration({2, 2, 1, 1}, "gpipe", 1, Recompute::none, /*experts=*/4)) ==
        share);
  CHECK(bubble_of(configuration({1, 2, 2, 1}, "zb-h1", 1, Recompute::full)).has_value());
  CHECK(!bubble_of(configuration({1, 2, 1, 2}, "zb-h1", 1, Recompute::full)).has_value());
  CHECK(!bubble_of(configuration({2, 2, 1, 1}, "zb-h1", 1, Recompute::full, 4)).has_value());
  // On the wall clock, F, I and W are equal by convention.
  Configuration on_wall = configuration({1, 2, 1, 2}, "zb-h1", 1, Recompute::full);
  on_wall.options.plan.modelled.reset();
  on_wall.options = on_meta(on_wall.options);
  CHECK(bubble_of(on_wall).has_value());
}

TEST_CASE("experts take every schedule that the lessons generate, but not every order") {
  AllAxes chosen;
  chosen.moe.experts = 4;
  for (const KnownSchedule& known : known_schedules())
    for (const int p : {1, 2, 3, 4})
      for (const int m : {1, 2, 5, 8, 13})
        for (int v = known.least_chunks; v <= std::min(known.most_chunks, 3); ++v)
          if (const PipelineSize size{p, v, m}; refusal(known, size).empty())
            CHECK_NOTHROW(check_routed_order(known.generate(size), chosen));
  const Schedule descending = schedule_from_csv("0F0,0F1,0B1,0B0\n", "mine.csv");
  CHECK_THROWS_WITH_AS(check_routed_order(descending, chosen),
                       doctest::Contains("microbatch 0 after that of 1"), UsageError);
  chosen.moe.experts = 0;
  CHECK_NOTHROW(check_routed_order(descending, chosen));
}
