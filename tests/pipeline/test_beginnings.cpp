// Beginnings of schedules: those that check_beginning() rejects, and the times of the others.
#include <doctest/doctest.h>

#include <random>

#include "core/pipeline/simulator.h"
#include "core/pipeline/validate.h"
#include "core/pipeline/walk.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "lessons/11_zero_bubble/dualpipe_v.h"
#include "lessons/11_zero_bubble/zb_h1.h"

using namespace lockstep;

namespace {

PipelineTimes uneven_times(int stages) {
  PipelineTimes times;
  for (int stage = 0; stage < stages; ++stage)
    times.stages.push_back({1'000 + 10 * stage, 2'100 + 10 * stage, 900, 1'200});
  times.boundary_bytes = 64;
  times.cluster.within = {1e-10, 1e12};
  return times;
}

}  // namespace

TEST_CASE("the beginning of a schedule takes as long as in the whole schedule") {
  std::mt19937 random{3};
  for (const Schedule& whole : {one_f_one_b(4, 6), zb_h1(3, 2, 6), dualpipe_v(3, 6)}) {
    const PipelineTimes times = uneven_times(whole.stages);
    const Simulation expected = simulate(whole, times, true);
    for (int round = 0; round < 20; ++round) {
      // Cut after a number of actions, in an order in which they can run.
      std::size_t left =
          std::uniform_int_distribution<std::size_t>{0, whole.action_count()}(random);
      Schedule beginning = whole;
      for (auto& row : beginning.actions) row.clear();
      walk(whole, [&](std::size_t rank, const Action& action, std::size_t position) {
        const bool joined = position > 0 && whole.actions[rank][position - 1].with_next;
        if (left == 0 && !joined) return;
        if (joined && beginning.actions[rank].size() != position) return;
        beginning.actions[rank].push_back(action);
        if (left > 0) --left;
      });
      const Simulation begun = simulate_beginning(beginning, times, true);
      for (std::size_t rank = 0; rank < begun.actions.size(); ++rank)
        for (std::size_t i = 0; i < begun.actions[rank].size(); ++i) {
          CHECK(begun.actions[rank][i].start == expected.actions[rank][i].start);
          CHECK(begun.actions[rank][i].end == expected.actions[rank][i].end);
        }
      CHECK(begun.makespan <= expected.makespan);
    }
    CHECK(simulate_beginning(whole, times).makespan == expected.makespan);
    CHECK(simulate_beginning(whole, times).bubble == expected.bubble);
  }
}

TEST_CASE("check_beginning() names an action that no schedule may begin with") {
  const auto fault_of = [](std::vector<std::vector<Action>> actions) {
    Schedule schedule = one_stage_per_rank("s", 2, 2);
    schedule.actions = std::move(actions);
    try {
      check_beginning(schedule);
    } catch (const InvalidSchedule& invalid) {
      return std::string{invalid.what()};
    }
    return std::string{};
  };
  const Action f00{Op::forward, 0, 0}, f10{Op::forward, 1, 0}, b10{Op::backward, 1, 0};
  CHECK(fault_of({{}, {}}).empty());
  CHECK(fault_of({{f00}, {f10, b10}}).empty());
  CHECK(fault_of({{}, {f10}}) == "s: rank 1 runs 1F0, whose input 0F0 is missing");
  CHECK(fault_of({{f00, {Op::backward, 0, 0}}, {f10}}) ==
        "s: rank 0 runs 0B0, whose input 1B0 is missing");
  CHECK(fault_of({{f00}, {b10, f10}}) == "s: rank 1 runs 1B0 before its forward 1F0");
  CHECK(fault_of({{f00}, {f10, {Op::backward_weight, 1, 0}}}) ==
        "s: rank 1 runs 1W0 before 1I0, whose result it uses");
  CHECK(fault_of({{f00, f00}, {}}) == "s: rank 0 runs 0F0 twice");
  CHECK(fault_of({{f10}, {}}) == "s: rank 0 runs 1F0, but stage 1 is on rank 1");
  CHECK(fault_of({{{Op::forward, 0, 2}}, {}}) == "s: rank 0 runs 0F2, but microbatches are 0 to 1");
  CHECK(fault_of({{{Op::forward, 0, 0, true}}, {}}) ==
        "s: rank 0 joins 0F0 with nothing; a joint action is a forward and then a backward");
}
