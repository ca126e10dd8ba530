#include <doctest/doctest.h>

#include "tests/support/known_schedule_checks.h"
#include "tests/support/pipeline_checks.h"
#include "tests/support/portion.h"
#include "tests/support/ranks.h"

// Runs the lessons' schedules with real ranks in threads. tests/mpi runs a few of them with ranks
// in processes.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Two steps of a model with a layer for each of up to 24 stages.
Options two_steps(const PipelineSize& size) {
  Options options = small_training(size.ranks, size.microbatches);
  set_model(options.plan, &GptConfig::layers, 24);
  set_model(options.plan, &GptConfig::hidden, 16);
  options.plan.batch.sequences = size.microbatches;
  options.run.steps = 2;
  return options;
}

/// Returns one small size of each schedule, and with --all the largest and all other sizes.
std::vector<SizedSchedule> some_schedules() {
  std::vector<SizedSchedule> accepted = accepted_schedules();
  // Starts with an m that p does not divide for each schedule, which is the hardest case.
  std::ranges::stable_partition(accepted, [](const SizedSchedule& each) {
    const auto& [p, v, m] = each.size;
    return p == 3 && m == 4 && v == each.known->least_chunks;
  });
  return portion(accepted, known_schedules().size());
}

}  // namespace

TEST_CASE("every known schedule: the bits of one device") {
  std::map<int, Reference> references;  // by m
  for (const auto& [known, size] : some_schedules()) {
    const Options options = two_steps(size);
    const Schedule schedule = known->generate(size);
    Reference& reference = references[size.microbatches];
    if (reference.losses.empty())
      reference = train_on_one_device(two_steps({1, 1, size.microbatches}),
                                      small_corpus(options.plan.model()),
                                      {{"", 0, options.run.steps, size.microbatches}});
    CAPTURE(to_string(schedule.actions[0].back()));
    CHECK(on_all(options, [&](Rank& rank) {
            return check_parity(
                rank, options, [&](int, int) { return schedule; }, reference, {}, 1.0);
          }) == "");
  }
}

TEST_CASE("every known schedule: bytes and peaks are as predicted, to the byte") {
  for (const auto& [known, size] : some_schedules()) {
    const Options options = two_steps(size);
    const Schedule schedule = known->generate(size);
    CHECK(on_all(options, [&](Rank& rank) { return check_memory(rank, options, schedule); }) == "");
  }
}

TEST_CASE("every known schedule: executed on the modelled clock as simulated, to the picosecond") {
  Cluster costly{.name = "costly", .flops = 1.7e10, .memory_bandwidth = 2.3e10};
  costly.within = costly.between = {3e-6, 7e8};
  Cluster free = costly;
  free.within = free.between = {};
  for (const auto& [known, size] : some_schedules())
    for (const Cluster& cluster : {costly, free}) {
      const Schedule schedule = known->generate(size);
      Options options = modelled_options(size.ranks, cluster);
      set_model(options.plan, two_steps(size).plan.model());
      set_model(options.plan, &GptConfig::layers, size.stages());
      CHECK(on_all(options, [&](Rank& rank) {
              return check_timeline(rank, options.plan.model(), schedule, 1);
            }) == "");
    }
}
