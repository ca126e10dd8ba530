#include <doctest/doctest.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/pipeline/csv.h"
#include "core/pipeline/validate.h"
#include "lessons/08_gpipe/gpipe.h"
#include "lessons/09_1f1b/one_f_one_b.h"

using namespace lockstep;

namespace {

/// A schedule with one stage per rank, from its rows.
Schedule rows(const std::string& csv) {
  return schedule_from_csv(csv, "given");
}

void check_said(const Schedule& schedule, const std::string& expected,
                ScheduleFault fault = ScheduleFault::other) {
  std::string said;
  try {
    validate(schedule);
  } catch (const InvalidSchedule& error) {
    said = error.what();
    CHECK(error.fault == fault);
  }
  CHECK(said == "given: " + expected);
}

}  // namespace

TEST_CASE("GPipe: all forwards, then all backwards, both ascending") {
  CHECK(to_csv(gpipe(2, 3)) ==
        "0F0,0F1,0F2,0B0,0B1,0B2\n"
        "1F0,1F1,1F2,1B0,1B1,1B2\n");
}

TEST_CASE("1F1B: warm-up, steady state, cool-down") {
  CHECK(to_csv(one_f_one_b(3, 4)) ==
        "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\n"
        "1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3\n"
        "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3\n");
  CHECK(to_csv(one_f_one_b(3, 1)) == "0F0,0B0\n1F0,1B0\n2F0,2B0\n");  // too few to fill it
}

TEST_CASE("GPipe stashes m microbatches, 1F1B min(m, p - stage); both are valid") {
  for (int p = 1; p <= 9; ++p)
    for (int m = 1; m <= 20; ++m) {
      const Schedule all_first = gpipe(p, m);
      const Schedule one_by_one = one_f_one_b(p, m);
      validate(all_first);
      validate(one_by_one);
      CHECK(all_first.action_count() == std::size_t(2 * p * m));
      for (int stage = 0; stage < p; ++stage) {
        CHECK(peak_live_microbatches(all_first, stage) == m);
        CHECK(peak_live_microbatches(one_by_one, stage) == std::min(m, p - stage));
      }
    }
}

TEST_CASE("backwards run in ascending order of microbatches") {
  for (const Schedule& schedule : {gpipe(4, 7), one_f_one_b(4, 7)})
    for (const auto& row : schedule.actions) {
      int next = 0;
      for (const Action& action : row)
        if (action.op == Op::backward) CHECK(action.microbatch == next++);
    }
}

TEST_CASE("an empty pipeline is rejected") {
  CHECK_THROWS_WITH_AS(gpipe(0, 4),
                       "GPipe: 0 stages and 4 microbatches; a schedule needs at least 1 of each",
                       ScheduleError);
  CHECK_THROWS_WITH_AS(one_f_one_b(2, -1),
                       "1F1B: 2 stages and -1 microbatches; a schedule needs at least 1 of each",
                       ScheduleError);
}

TEST_CASE("an action's name and category") {
  CHECK(to_string({Op::forward, 0, 3}) == "0F3");
  CHECK(to_string({Op::backward, 12, 0}) == "12B0");
  CHECK(to_string({Op::backward_input, 1, 2}) == "1I2");
  CHECK(to_string({Op::backward_weight, 1, 2}) == "1W2");
  CHECK(category(Op::forward) == Category::forward);
  CHECK(category(Op::backward) == Category::backward);
  CHECK(category(Op::backward_input) == Category::backward_input);
  CHECK(category(Op::backward_weight) == Category::backward_weight);
}

TEST_CASE("a missing action is named, with the rank that should run it") {
  check_said(rows("0F0,0F1,0B0,0B1\n1F0,1B0,1B1\n"), "1F1 is missing; rank 1 should run it",
             ScheduleFault::missing);
  check_said(rows("0F0,0F1,0B0,0B1\n1F0,1F1,1B1\n"),
             "the backward of stage 1 for microbatch 0 (1B0, or 1I0 and 1W0) is missing; rank 1 "
             "should run it",
             ScheduleFault::missing);
  check_said(rows("0F0,0I0\n1F0,1B0\n"), "0W0 is missing; rank 0 should run it",
             ScheduleFault::missing);
  check_said(rows("0F0,0W0\n1F0,1B0\n"), "0I0 is missing; rank 0 should run it",
             ScheduleFault::missing);
  CHECK_THROWS_WITH_AS(rows("0F0,0B70000\n"), "given: has a microbatch 70000, but only 2 actions",
                       ScheduleError);
  Schedule schedule = rows("0F0,0B0\n");
  schedule.microbatches = 70001;
  check_said(schedule,
             "has 2 actions; 1 stages and 70001 microbatches take at least 140002 (a forward and a "
             "backward each)",
             ScheduleFault::too_few);
}

TEST_CASE("a superfluous action is named") {
  check_said(rows("0F0,0B0,0F0\n"), "rank 0 runs 0F0 twice");
  check_said(rows("0F0,0I0,0W0,0B0\n"),
             "stage 0 has B as well as I or W for microbatch 0; B includes both");
  check_said(rows("0F0,0B0,0W0\n"),
             "stage 0 has B as well as I or W for microbatch 0; B includes both");
  check_said(rows("0F0,0B0\n1F0,0F1,1B0,0B1\n"), "rank 1 runs 0F1, but stage 0 is on rank 0",
             ScheduleFault::wrong_stage);

  Schedule schedule = rows("0F0,0B0\n1F0,1B0\n");
  schedule.actions[1][0].microbatch = 1;
  check_said(schedule, "rank 1 runs 1F1, but microbatches are 0 to 0",
             ScheduleFault::no_microbatch);
  schedule.actions[1][0] = {Op::forward, -1, 0};
  check_said(schedule, "rank 1 runs -1F0, but stages are 0 to 1", ScheduleFault::wrong_stage);
}

TEST_CASE("a placement that does not fit is named") {
  const Schedule valid = rows("0F0,0B0\n1F0,1B0\n");
  Schedule schedule = valid;
  schedule.rank_of_stage[1] = 2;
  check_said(schedule, "stage 1 is on rank 2, but ranks are 0 to 1");
  schedule = valid;
  schedule.rank_of_stage.pop_back();
  check_said(schedule, "has 2 stages but a rank for 1 of them");
  schedule = valid;
  schedule.ranks = 3;
  check_said(schedule, "has 3 ranks but lists of actions for 2");
  schedule = valid;
  schedule.microbatches = 0;
  check_said(schedule, "2 ranks, 2 stages, 0 microbatches; a schedule needs at least 1 of each");
}

TEST_CASE("an action before its own rank's dependency is named") {
  check_said(rows("0F0,0W0,0I0\n"), "rank 0 runs 0W0 before 0I0, whose result it uses",
             ScheduleFault::weight_first);
  check_said(rows("0B0,0F0\n"), "rank 0 runs 0B0 before its forward 0F0",
             ScheduleFault::backward_first);
  check_said(rows("0I0,0F0,0W0\n"), "rank 0 runs 0I0 before its forward 0F0",
             ScheduleFault::backward_first);
}

TEST_CASE("a deadlock is reported as the cycle of waiting ranks") {
  SUBCASE("of two ranks") {
    check_said(rows("0F0,0B0,0F1,0B1\n"
                    "1F0,1F1,1B0,1B1\n"),
               "deadlock: rank 0 waits in 0B0 for 1B0, which rank 1 runs after 1F1, which waits "
               "for 0F1, which rank 0 runs after 0B0",
               ScheduleFault::deadlock);
  }
  SUBCASE("of backwards in halves") {
    check_said(rows("0F0,0I0,0W0,0F1,0B1\n"
                    "1F0,1F1,1I0,1W0,1B1\n"),
               "deadlock: rank 0 waits in 0I0 for 1I0, which rank 1 runs after 1F1, which waits "
               "for 0F1, which rank 0 runs after 0I0",
               ScheduleFault::deadlock);
  }
  SUBCASE("of three ranks, one of which would go on if it could") {
    check_said(rows("0F0,3F0,0B0,3B0\n"
                    "1F0,4F0,4B0,1B0\n"
                    "2F0,5F0,5B0,2B0\n"),
               "deadlock: rank 0 waits in 0B0 for 1B0, in which rank 1 waits for 2B0, in which "
               "rank 2 waits for 3B0, which rank 0 runs after 0B0",
               ScheduleFault::deadlock);
    check_said(rows("0F0,3F0,3B0,0B0\n"
                    "1F0,4F0,1B0,4B0\n"
                    "2F0,5F0,5B0,2B0\n"),
               "deadlock: rank 0 waits in 3B0 for 4B0, which rank 1 runs after 1B0, which waits "
               "for 2B0, in which rank 2 waits for 3B0",
               ScheduleFault::deadlock);
  }
  SUBCASE("of one rank with itself") {
    check_said(rows("1F0,0F0,1B0,0B0\n"),
               "deadlock: rank 0 waits in 1F0 for 0F0, which rank 0 runs after 1F0",
               ScheduleFault::deadlock);
  }
  SUBCASE("of others than the first that is stuck") {
    check_said(rows("0F0,0F1,0B0,0B1\n"
                    "1F0,1F1,1B0,1B1\n"
                    "2F0,2B0,2F1,2B1\n"
                    "3F0,3F1,3B0,3B1\n"),
               "deadlock: rank 2 waits in 2B0 for 3B0, which rank 3 runs after 3F1, which waits "
               "for 2F1, which rank 2 runs after 2B0",
               ScheduleFault::deadlock);
  }
}
