#include <doctest/doctest.h>

#include "core/pipeline/csv.h"
#include "core/plan/gpt_parameters.h"
#include "tests/pipeline/multi_stage_schedules.h"
#include "tests/pipeline/random_schedules.h"
#include "tests/support/pipeline_checks.h"
#include "tests/support/portion.h"
#include "tests/support/ranks.h"

// Tests several stages per rank, with ranks in threads. tests/mpi runs a few of these tests with
// ranks in processes.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

const std::vector<std::pair<const char*, std::vector<int>>> placements{
    {"loop, p = 2", loop_placement(2, 4)},
    {"loop, p = 3, ends on different ranks", loop_placement(3, 8)},
    {"loop, p = 3, ends on one rank", loop_placement(3, 7)},
    {"loop, p = 4", loop_placement(4, 8)},
    {"V, p = 2", v_placement(2)},
    {"V, p = 4", v_placement(4)},
    {"one rank", {0, 0, 0}},
    {"uneven", {0, 0, 1, 2, 2, 2, 1}},
    {"last stage on the first rank", {1, 0, 0}},
    {"first stage on the last rank", {2, 1, 0, 1}},
};

Options training_of(const Schedule& schedule, bool tied, float clip) {
  return small_training(schedule.ranks, schedule.microbatches, tied, clip);
}

Reference reference_of(const Options& options) {
  return train_on_one_device(options, small_corpus(options.plan.model()),
                             {{"", 0, options.run.steps, options.plan.batch.microbatches}});
}

std::string parity_of(const Schedule& schedule, const Options& options, const Reference& reference,
                      double left = 0.8) {
  return on_all(options, [&](Rank& rank) {
    return check_parity(
        rank, options, [&](int, int) { return schedule; }, reference, {}, left);
  });
}

}  // namespace

TEST_CASE("several stages per rank: the bits of one device, tied, clipped and split") {
  std::mt19937 random{5};
  constexpr int m = 4;
  const std::vector<std::pair<bool, float>> updates{
      {true, 0.5F}, {false, 0.0F}, {true, 0.0F}, {false, 0.5F}};
  for (const auto& [tied, clip] : portion(updates, 2)) {
    const Reference reference = reference_of(small_training(1, m, tied, clip));
    for (const auto& [name, placement] : placements) {
      CAPTURE(name);
      CAPTURE(tied);
      CAPTURE(clip);
      for (const Schedule& schedule :
           {chunk_by_chunk(placement, m), chunk_by_chunk(placement, m, true),
            random_ascending(random, placement, m, Split::none),
            random_ascending(random, placement, m, Split::some)}) {
        CAPTURE(to_csv(schedule));
        CHECK(parity_of(schedule, training_of(schedule, tied, clip), reference) == "");
      }
    }
  }
}

TEST_CASE("several stages per rank in bf16, and with a frozen tied table: the bits of one device") {
  constexpr int m = 3;
  for (const bool frozen : {false, true}) {
    const auto adapted = [&](Options options) {
      if (frozen)
        set_model(options.plan, &GptConfig::frozen, {0});
      else
        set_model(options.plan, &GptConfig::dtype, DType::bf16);
      return options;
    };
    const Reference reference = reference_of(adapted(small_training(1, m, true, 0.5F)));
    for (const auto& placement : {v_placement(2), loop_placement(2, 4), {0, 0, 0}}) {
      const Schedule schedule = chunk_by_chunk(placement, m, true);
      const Options options = adapted(training_of(schedule, true, 0.5F));
      CHECK(parity_of(schedule, options, reference, frozen ? 0.97 : 0.8) == "");
      CHECK(on_all(options, [&](Rank& rank) { return check_memory(rank, options, schedule); }) ==
            "");
    }
  }
}

TEST_CASE("several stages per rank: bytes and every peak of memory are predicted to the byte") {
  std::mt19937 random{6};
  for (const auto& [name, placement] : placements)
    for (const auto& [tied, clip] : {std::pair{false, 0.0F}, {true, 0.0F}, {true, 0.5F}})
      for (const int m : {1, 3, 8}) {
        CAPTURE(name);
        CAPTURE(tied);
        CAPTURE(clip);
        for (const Schedule& schedule :
             {chunk_by_chunk(placement, m), chunk_by_chunk(placement, m, true),
              random_ascending(random, placement, m, Split::some)}) {
          CAPTURE(to_csv(schedule));
          const Options options = training_of(schedule, tied, clip);
          CHECK(on_all(options,
                       [&](Rank& rank) { return check_memory(rank, options, schedule); }) == "");
        }
      }
}

TEST_CASE("random schedules: a unit's gradients are ready once per step, after its last backward") {
  struct Counts : LayerHooks {
    std::map<int, int> ready, backwards, late;
    void after_backward(const Unit& unit) override {
      ++backwards[unit.index];
      late[unit.index] += ready[unit.index] > 0;
    }
    void gradients_ready(const Unit& unit) override { ++ready[unit.index]; }
  };
  std::mt19937 random{8};
  int not_the_batchs_last = 0;
  for (int i = 0; i < 60; ++i) {
    const Schedule schedule = random_full_schedule(random);
    CAPTURE(to_csv(schedule));
    const Options options = modelled_options(schedule.ranks);
    const GptConfig config = tiny_model(schedule, false);
    for (const auto& row : schedule.actions)
      for (auto last = row.rbegin(); last != row.rend(); ++last)
        if (last->op == Op::backward || last->op == Op::backward_weight) {
          not_the_batchs_last += last->microbatch + 1 < schedule.microbatches;
          break;
        }
    CHECK(on_all(options, [&](Rank& rank) -> std::string {
            StageModels stages{rank, config, schedule, 1};
            Counts counts;
            std::vector<HookScope> scopes;
            for (const auto& model : stages.models) scopes.emplace_back(*model, counts);
            PipelineExecutor pipeline{rank.endpoint, rank.world, schedule, stages.pointers(),
                                      stage_boundary(config, 1)};
            for (int step = 0; step < 2; ++step) {
              counts = {};
              pipeline.step(small_corpus(config).batch(
                  1, step, {.microbatches = schedule.microbatches, .size = 1}));
              for (const auto& model : stages.models)
                for (const Unit& unit : model->units())
                  if (counts.ready[unit.index] != 1 || counts.late[unit.index] != 0 ||
                      counts.backwards[unit.index] != schedule.microbatches)
                    return fmt::format("unit {}: ready {} times, {} backwards, {} late; ",
                                       unit.index, counts.ready[unit.index],
                                       counts.backwards[unit.index], counts.late[unit.index]);
            }
            return "";
          }) == "");
  }
  CHECK(not_the_batchs_last > 20);  // otherwise the test would prove nothing
}

TEST_CASE("the update's messages, counted by hand") {
  GptConfig config{.layers = 6, .hidden = 4, .heads = 2, .sequence = 8, .vocabulary = 9};
  const auto messages = [&](const std::vector<int>& placement, int rank, bool clips,
                            Collectives collectives = Collectives::built_in,
                            bool combines = false) {
    Plan plan{config, Mesh{3, {1, 1, 1, 3}}};
    plan.rank_of_stage = placement;
    plan.optimizer.clip = clips ? 1 : 0;
    plan.collectives = collectives;
    plan.receives_combine = combines;
    return update_messages(plan, plan.place(rank));
  };
  const std::vector<int> linear{0, 1, 2};
  const std::vector<int> v{0, 1, 2, 2, 1, 0};

  CHECK(messages(linear, 0, false).bytes_sent == BytesSent{});
  const auto tensors = static_cast<std::int64_t>(gpt_parameters(config).size());
  CHECK(messages(linear, 1, true).bytes_sent ==
        bytes_of({{Operation::all_gather, 2 * 8 * tensors}}));
  CHECK(messages(linear, 1, true).peak_bytes == 3 * 8 * tensors);

  config.tied = true;
  CHECK(messages(linear, 0, false).bytes_sent == bytes_of({{Operation::all_reduce, 4 * 36}}));
  CHECK(messages(linear, 1, false).bytes_sent == BytesSent{});
  CHECK(messages(linear, 2, false).peak_bytes == 4 * 18);
  CHECK(messages(linear, 2, false, Collectives::built_in, true).peak_bytes == 0);
  CHECK(messages(linear, 2, false, Collectives::native).bytes_sent == BytesSent{});
  CHECK(messages(linear, 2, false, Collectives::native).peak_bytes == 0);
  CHECK(messages(linear, 2, true).peak_bytes == 3 * 8 * (tensors - 1));
  CHECK(messages(v, 0, false).bytes_sent == BytesSent{});
  CHECK(messages({1, 2, 0}, 0, false).bytes_sent == bytes_of({{Operation::all_reduce, 4 * 36}}));
  CHECK(messages({1, 2, 0}, 2, false).bytes_sent == BytesSent{});
  config.frozen = {0};
  CHECK(messages(linear, 0, false).bytes_sent == BytesSent{});
}
