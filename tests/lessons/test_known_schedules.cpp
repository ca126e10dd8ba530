#include <doctest/doctest.h>

#include <map>
#include <random>

#include "core/pipeline/validate.h"
#include "tests/support/known_schedule_checks.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Random times of a stage, in multiples of 6 µs so that 2 and 3 chunks divide them.
StageTimes random_work(std::mt19937& random) {
  const auto time = [&] {
    return Picoseconds{6'000'000} * std::uniform_int_distribution{1, 50}(random);
  };
  const Picoseconds input = time(), weight = time();
  return {.forward = time(),
          .backward = input + weight,
          .backward_input = input,
          .backward_weight = weight};
}

constexpr StageTimes equal_thirds{.forward = 6'000'000,
                                  .backward = 12'000'000,
                                  .backward_input = 6'000'000,
                                  .backward_weight = 6'000'000};

/// The inputs of a simulation with free messages, in which all of a rank's chunks together take the
/// times `work` for a microbatch.
PipelineTimes equal_stages(const PipelineSize& size, const StageTimes& work) {
  const int v = size.chunks;
  PipelineTimes times;
  times.stages.assign(
      static_cast<std::size_t>(size.stages()),
      {work.forward / v, work.backward / v, work.backward_input / v, work.backward_weight / v});
  return times;
}

}  // namespace

TEST_CASE("every known schedule is valid for the sizes that it accepts, and refuses in one line") {
  int refused = 0;
  for (const KnownSchedule& known : known_schedules())
    for (const int p : {1, 2, 3, 4, 8})
      for (const int v : {1, 2, 3})
        for (const int m : microbatch_numbers(p)) {
          const PipelineSize size{p, v, m};
          CAPTURE(known.name);
          CAPTURE(p);
          CAPTURE(v);
          CAPTURE(m);
          if (const std::string why = refusal(known, size); !why.empty()) {
            CHECK(why.find("; use --") != std::string::npos);
            CHECK(why.find('\n') == std::string::npos);
            ++refused;
            continue;
          }
          if (!is_tried(known, size)) continue;
          const Schedule schedule = known.generate(size);
          REQUIRE_NOTHROW(validate(schedule));
          CHECK(schedule.name == known.name);
          CHECK(schedule.ranks == p);
          CHECK(schedule.stages == p * v);
          CHECK(schedule.microbatches == m);
          CHECK(schedule.rank_of_stage == placement_of(known, size));
        }
  CHECK(refused > 0);
}

TEST_CASE("every known schedule accumulates each stage's gradients in ascending order") {
  for (const auto& [known, size] : accepted_schedules()) {
    const Schedule schedule = known->generate(size);
    CAPTURE(known->name);
    std::map<std::pair<int, bool>, int> next;  // by stage, and whether it is the input's gradient
    for (const auto& row : schedule.actions)
      for (const auto& [op, stage, microbatch, joined] : row) {
        if (op == Op::backward || op == Op::backward_input)
          CHECK(next[{stage, true}]++ == microbatch);
        if (op == Op::backward || op == Op::backward_weight)
          CHECK(next[{stage, false}]++ == microbatch);
      }
  }
}

TEST_CASE("every known schedule holds as many live microbatches as stated") {
  for (const auto& [known, size] : accepted_schedules()) {
    const Schedule schedule = known->generate(size);
    CAPTURE(known->name);
    CAPTURE(size.ranks);
    CAPTURE(size.chunks);
    CAPTURE(size.microbatches);
    for (int rank = 0; rank < size.ranks; ++rank)
      if (known->searched)
        CHECK(peak_live_microbatches(schedule, rank) <= known->live(size, rank));
      else
        CHECK(peak_live_microbatches(schedule, rank) == known->live(size, rank));
  }
}

TEST_CASE("every known schedule idles as long as stated, for equal stages and free messages") {
  std::mt19937 random{10};
  std::map<std::string_view, int> compared;
  for (const auto& [known, size] : accepted_schedules())
    for (int trial = 0; trial < 4; ++trial) {
      CAPTURE(known->name);
      CAPTURE(size.ranks);
      CAPTURE(size.chunks);
      CAPTURE(size.microbatches);
      const StageTimes work = trial == 0 ? equal_thirds : random_work(random);
      CAPTURE(work.forward);
      CAPTURE(work.backward_input);
      CAPTURE(work.backward_weight);
      const auto formula = bubble_of(*known, size, work);
      if (!formula) continue;
      ++compared[known->name];
      const Simulation simulation = simulate(known->generate(size), equal_stages(size, work));
      CHECK(simulation.bubble == doctest::Approx(*formula).epsilon(1e-12));
    }
  for (const KnownSchedule& known : known_schedules())
    if (!known.searched) CHECK(compared[known.name] > 0);
}

TEST_CASE("interleaving divides the bubble by the number of chunks") {
  std::mt19937 random{11};
  for (const int p : {2, 3, 4, 8})
    for (const int v : {2, 3})
      for (const int m : microbatch_numbers(p)) {
        CAPTURE(p);
        CAPTURE(v);
        CAPTURE(m);
        const StageTimes work = random_work(random);
        const Picoseconds one = work.forward + work.backward;
        const auto step = [&](int microbatches) {
          const PipelineSize size{p, v, microbatches};
          return simulate(interleaved_1f1b(p, v, microbatches), equal_stages(size, work)).makespan;
        };
        // A bubble of (p - 1)/(v m) of the ideal time m T, where m may be rounded up to a multiple
        // of p.
        const Picoseconds least = m * one + (p - 1) * one / v;
        const int up = (m + p - 1) / p * p;
        if (m >= p) CHECK(step(m) == least);
        CHECK(step(m) >= least);
        CHECK(step(m) <= up * one + (p - 1) * one / v);
        CHECK(step(up) == up * one + (p - 1) * one / v);
      }
}

TEST_CASE("a schedule is found by its exact name or its word, and by nothing else") {
  for (const KnownSchedule& known : known_schedules()) {
    CHECK(find_schedule(known.name) == &known);
    CHECK(find_schedule(known.word) == &known);
  }
  CHECK(find_schedule("ZB-H1") == find_schedule("zb-h1"));
  for (const char* other :
       {"", "pipe", "my GPipe", "1F1B with a twist", "looped", "interleaved 1f1b"})
    CHECK(find_schedule(other) == nullptr);
}
