#include <doctest/doctest.h>

#include <atomic>

#include "core/base/error.h"
#include "core/pipeline/csv.h"
#include "tests/pipeline/random_schedules.h"
#include "tests/support/pipeline_checks.h"
#include "tests/support/portion.h"
#include "tests/support/ranks.h"

// Runs random schedules with ranks in threads: 150 each time, and 10,000 with `./lockstep test
// --all`.

using namespace lockstep;
using namespace lockstep::testing;

TEST_CASE("random schedules: bytes, every peak and the timeline are as predicted and simulated") {
  std::mt19937 random{7};
  for (int i = 0; i < portion_of(10'000, 150); ++i) {
    CAPTURE(i);
    Schedule schedule = random_full_schedule(random);
    if (i % 2 == 1) join_some(random, schedule);
    CAPTURE(to_csv(schedule));
    Cluster cluster = random_times(random, schedule).cluster;
    cluster.flops = 1.7e10;
    cluster.memory_bandwidth = 2.3e10;
    Options options = modelled_options(schedule.ranks, cluster);
    // A tied table with both uses in one stage makes the last backward slower than the others,
    // which PipelineTimes cannot express.
    set_model(options.plan, tiny_model(schedule, schedule.stages > 1 && pick(random, 0, 1) == 1));
    options.plan.batch.microbatches = schedule.microbatches;
    options.plan.batch.sequences = pick(random, 1, 2) * schedule.microbatches;
    options.plan.optimizer.clip = pick(random, 0, 1) == 1 ? 0.5F : 0.0F;
    CHECK(on_all(options, [&](Rank& rank) { return check_memory(rank, options, schedule); }) == "");
    CHECK(on_all(options, [&](Rank& rank) {
            return check_timeline(rank, options.plan.model(), schedule, 1);
          }) == "");
  }
}

TEST_CASE("random schedules, half of them shuffled, run by the wall clock or are refused") {
  std::mt19937 random{9};
  const int count = portion_of(10'000, 150);
  int ran = 0;
  int deadlocks = 0;
  for (int i = 0; i < count; ++i) {
    CAPTURE(i);
    Schedule schedule = random_full_schedule(random);
    if (i % 4 < 2) join_some(random, schedule);
    if (i % 2 == 1) shuffle_some(random, schedule);
    CAPTURE(to_csv(schedule));
    const std::string fault = complaint(schedule);
    CAPTURE(fault);
    Options options;
    options.plan.set_mesh(Mesh::along(Axis::pp, schedule.ranks));
    set_model(options.plan, tiny_model(schedule, false));
    std::atomic<int> refused = 0;
    CHECK(on_all(options, [&](Rank& rank) -> std::string {
            StageModels stages{rank, options.plan.model(), schedule, 1};
            try {
              PipelineExecutor pipeline{rank.endpoint, rank.world, schedule, stages.pointers(),
                                        stage_boundary(options.plan.model(), 1)};
              Batch batch = small_corpus(options.plan.model())
                                .batch(1, 0, {.microbatches = schedule.microbatches, .size = 1});
              move_to(rank.device, batch);
              pipeline.step(batch);
              return "";
            } catch (const ScheduleError& error) {
              ++refused;
              return error.what() == fault ? "" : fmt::format("'{}'; ", error.what());
            }
          }) == "");
    CHECK(refused == (fault.empty() ? 0 : schedule.ranks));
    ran += fault.empty();
    deadlocks += fault.find("deadlock: rank ") != std::string::npos;
  }
  // Each of these must be frequent, or the test would prove nothing.
  CHECK(ran > count / 2);
  CHECK(ran < count);
  CHECK(deadlocks > count / 20);
}
