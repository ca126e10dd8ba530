#include <doctest/doctest.h>

#include <mutex>

#include "tests/pipeline/worked_cases.h"
#include "tests/support/pipeline_checks.h"
#include "tests/support/ranks.h"

// Runs schedules with real ranks in threads, all on the modelled clock. tests/mpi runs the same
// checks with ranks in processes.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

const std::vector<std::pair<const char*, Generator>> generators{{"GPipe", gpipe},
                                                                {"1F1B", one_f_one_b}};

}  // namespace

TEST_CASE("GPipe and 1F1B match one device bitwise, and learn") {
  for (const int m : {1, 2, 3, 4, 8, 16}) {
    const Options one = small_training(1, m);
    const Reference reference =
        train_on_one_device(one, small_corpus(one.plan.model()), {{"", 0, one.run.steps, m}});
    for (const int p : {1, 2, 4, 8})
      for (const auto& [name, generate] : generators) {
        CAPTURE(name);
        CHECK(on_all(small_training(p, m), [&](Rank& rank) {
                return check_parity(rank, small_training(p, m), generate, reference);
              }) == "");
      }
  }
}

TEST_CASE("tied heads and clipped gradients: the same bits too") {
  for (const auto& [tied, clip] : {std::pair{true, 0.0F}, {false, 0.5F}, {true, 0.5F}}) {
    const Options one = small_training(1, 4, tied, clip);
    const Reference reference =
        train_on_one_device(one, small_corpus(one.plan.model()), {{"", 0, one.run.steps, 4}});
    for (const int p : {1, 2, 3, 4}) {
      const Options options = small_training(p, 4, tied, clip);
      CHECK(on_all(options, [&](Rank& rank) {
              return check_parity(rank, options, one_f_one_b, reference);
            }) == "");
    }
  }
}

TEST_CASE("in bf16 and f16 too, tied heads and clipping included") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Options one = small_training(1, 4, true, 0.5F);
    set_model(one.plan, &GptConfig::dtype, dtype);
    const Reference reference =
        train_on_one_device(one, small_corpus(one.plan.model()), {{"", 0, one.run.steps, 4}});
    for (const int p : {2, 3}) {
      Options options = small_training(p, 4, true, 0.5F);
      set_model(options.plan, &GptConfig::dtype, dtype);
      CHECK(on_all(options, [&](Rank& rank) {
              return check_parity(rank, options, gpipe, reference);
            }) == "");
    }
  }
}

TEST_CASE("modelled: a run has the hand-computed times, to the picosecond") {
  GptConfig config{.layers = 4, .hidden = 16, .heads = 2, .sequence = 16, .vocabulary = 256};
  const std::int64_t bytes = 4 * config.sequence * config.hidden;
  FixedTimes times;
  times.set(Category::forward, worked::unit);
  times.set(Category::backward, 2 * worked::unit);
  for (const worked::Case& c : worked::cases()) {
    CAPTURE(c.name);
    Options options = modelled_options(c.schedule.ranks, worked::cluster(c, bytes), times);
    set_model(options.plan, config);
    std::mutex mutex;
    std::string wrong;
    const std::string failure = on_threads(options, [&](Rank& rank) {
      Gpt stage{config, rank.device, StageLayers::of(config, rank.id, rank.count), 1};
      PipelineExecutor pipeline{
          rank.endpoint, rank.world, c.schedule, {&stage}, stage_boundary(config, 1)};
      pipeline.step(
          small_corpus(config).batch(1, 0, {.microbatches = c.schedule.microbatches, .size = 1}));
      const auto events = rank.trace.drain();
      const auto ran = spans_named(events, "action");
      const auto& windows = c.windows[static_cast<std::size_t>(rank.id)];
      std::lock_guard lock{mutex};
      for (std::size_t i = 0; i < windows.size(); ++i)
        if (ran.at(i).start != windows[i].start * worked::unit ||
            ran.at(i).end != windows[i].end * worked::unit)
          wrong += fmt::format("rank {} action {}: {}..{}; ", rank.id, i, ran[i].start, ran[i].end);
      for (const worked::Passage& message : c.messages) {
        if (message.from_rank != rank.id) continue;
        bool found = false;
        for (const TraceEvent& sent : spans_named(events, "send"))
          found = found || (sent.start == message.start * worked::unit &&
                            sent.end == message.sent * worked::unit &&
                            sent.span.microbatch == message.made_by.microbatch);
        if (!found)
          wrong += fmt::format("rank {}: no message {}; ", rank.id, to_string(message.made_by));
      }
    });
    CHECK(failure == "");
    CHECK(wrong == "");
  }
}

TEST_CASE("modelled: every span of a run matches the simulator, on fast and slow links") {
  const GptConfig config{.layers = 8, .hidden = 16, .heads = 2, .sequence = 8, .vocabulary = 256};
  for (const double latency : {0.0, 1e-6, 1e-3}) {
    for (const double bandwidth : {1e12, 3.3e8, 1e6}) {
      Cluster cluster;
      cluster.flops = 1.7e10;
      cluster.memory_bandwidth = 2.3e10;
      cluster.launch_seconds = 1e-7;
      cluster.ranks_per_node = 2;
      cluster.nodes = 4;
      cluster.within = {latency, bandwidth};
      cluster.between = {3 * latency, bandwidth / 7};
      for (const int p : {1, 2, 4, 8})
        for (const int m : {1, 3, 8})
          for (const auto& [name, generate] : generators) {
            const Schedule schedule = generate(p, m);
            CHECK(on_all(modelled_options(p, cluster), [&](Rank& rank) {
                    return check_timeline(rank, config, schedule, 1);
                  }) == "");
          }
    }
  }
}

TEST_CASE("memory: GPipe holds m microbatches and 1F1B min(m, p - stage), to the byte") {
  for (const int p : {1, 2, 4, 8})
    for (const int m : {1, 2, 3, 4, 8, 16}) {
      const Options options = small_training(p, m);
      CHECK(on_all(options,
                   [&](Rank& rank) { return check_memory(rank, options, gpipe(p, m), m); }) == "");
      CHECK(on_all(options, [&](Rank& rank) {
              return check_memory(rank, options, one_f_one_b(p, m), std::min(m, p - rank.id));
            }) == "");
    }
}

TEST_CASE("a batch that does not fit, or an invalid schedule, is refused") {
  const Options options = small_training(1, 2);
  const auto failure = [&](const Schedule& schedule, const BatchShape& shape, int sequence = 16) {
    return on_threads(options, [&](Rank& rank) {
      Gpt stage{options.plan.model(), rank.device, StageLayers::whole(options.plan.model()), 1};
      PipelineExecutor pipeline{
          rank.endpoint, rank.world, schedule, {&stage}, {{1, sequence, 32}, DType::f32}};
      pipeline.step(small_corpus(options.plan.model()).batch(1, 0, shape));
    });
  };
  CHECK(failure(gpipe(1, 2), {.microbatches = 2, .size = 1}) == "");
  CHECK(failure(gpipe(1, 2), {.microbatches = 3, .size = 1}) ==
        "rank 0: a batch of 3 microbatches for a schedule of 2");
  CHECK(failure(gpipe(1, 2), {.microbatches = 2, .size = 3}) ==
        "rank 0: microbatches of (3, 16) tokens for a boundary of (1, 16, 32)");
  CHECK(failure(gpipe(1, 2), {.microbatches = 2, .size = 1}, 8) ==
        "rank 0: microbatches of (1, 16) tokens for a boundary of (1, 8, 32)");
  Schedule broken = gpipe(1, 2);
  broken.actions[0].pop_back();
  CHECK(failure(broken, {.microbatches = 2, .size = 1}).find("0B1") != std::string::npos);
}

TEST_CASE("numbers of models or ranks that differ from the schedule's are rejected") {
  const Options options = small_training(2, 2);
  const auto failure = [&](const Schedule& schedule, int models) {
    return on_threads(options, [&](Rank& rank) {
      Gpt stage{options.plan.model(), rank.device,
                StageLayers::of(options.plan.model(), rank.id, 2), 1};
      PipelineExecutor pipeline{rank.endpoint, rank.world, schedule,
                                std::vector<Gpt*>(static_cast<std::size_t>(models), &stage),
                                stage_boundary(options.plan.model(), 1)};
    });
  };
  CHECK(failure(gpipe(1, 2), 1).find("1 ranks for a group of 2") != std::string::npos);
  CHECK(failure(gpipe(2, 2), 0).find("0 models for the 1 stages") != std::string::npos);
  CHECK(failure(gpipe(2, 2), 2).find("2 models for the 1 stages") != std::string::npos);
  CHECK(failure(gpipe(2, 2), 1) == "");
  CHECK(on_threads(options, [&](Rank& rank) {
          Gpt stage{options.plan.model(), rank.device,
                    StageLayers::of(options.plan.model(), rank.id, 2), 1};
          AdamW optimizer{stage.parameters(), rank.device};
          Plan plan = rank.plan;
          plan.rank_of_stage = {0, 1, 1, 0};
          PipelineUpdate update{rank.endpoint, rank.world, plan, {&stage}, optimizer};
        }).find("1 models for the 2 stages") != std::string::npos);
}
