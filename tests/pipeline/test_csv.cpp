#include <doctest/doctest.h>

#include <random>

#include "core/base/error.h"
#include "core/pipeline/csv.h"
#include "lessons/08_gpipe/gpipe.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "tests/pipeline/random_schedules.h"

using namespace lockstep;

namespace {

void check_same(const Schedule& a, const Schedule& b) {
  CHECK(a.ranks == b.ranks);
  CHECK(a.stages == b.stages);
  CHECK(a.microbatches == b.microbatches);
  CHECK(a.rank_of_stage == b.rank_of_stage);
  CHECK(a.actions == b.actions);
}

void check_refused(const std::string& csv, const std::string& expected) {
  CAPTURE(csv);
  std::string said;
  try {
    schedule_from_csv(csv, "file");
  } catch (const ScheduleError& error) {
    said = error.what();
  }
  CHECK(said == "file: " + expected);
}

const std::string actions = "(a stage, one of F B I W, and a microbatch, such as 0F3)";

}  // namespace

TEST_CASE("a schedule written as CSV is read back the same") {
  check_same(schedule_from_csv(to_csv(gpipe(4, 6))), gpipe(4, 6));
  check_same(schedule_from_csv(to_csv(one_f_one_b(12, 11))), one_f_one_b(12, 11));
  std::mt19937 random{5};
  for (int i = 0; i < 100; ++i) {
    const Schedule schedule = random_schedule(random);
    if (schedule.actions.back().empty()) continue;  // CSV cannot show a last rank without work
    check_same(schedule_from_csv(to_csv(schedule), schedule.name), schedule);
  }
}

TEST_CASE("idle cells, blanks and line ends of other systems are skipped") {
  check_same(schedule_from_csv("0F0, 0F1,,,0B0,0B1\r\n,1F0,1F1 ,1B0,1B1,\r\n\r\n"), gpipe(2, 2));
  check_same(schedule_from_csv("0F0,0B0"), gpipe(1, 1));  // no newline at the end
}

TEST_CASE("messages and whole-stage operations in a CSV file are ignored") {
  check_same(schedule_from_csv(
                 "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD\n"
                 "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1,1RESHARD\n"),
             gpipe(2, 2));
}

TEST_CASE("an overlapped cell joins a forward with a backward") {
  const std::string text =
      "0F0,3F0,(0F1;3B0)OVERLAP_F_B,3F1,3B1,0B0,0I1,0W1\n"
      "1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\n";
  const Schedule schedule = schedule_from_csv(text);
  CHECK(to_csv(schedule) == text);
  const Action joined{Op::forward, 0, 1, true};
  CHECK(schedule.actions[0][2] == joined);
  CHECK(schedule.actions[0][3] == Action{Op::backward, 3, 0});
  CHECK(schedule.ranks == 2);
  CHECK(schedule.stages == 4);
  CHECK(schedule.microbatches == 2);
  CHECK(schedule.rank_of_stage == std::vector{0, 1, 1, 0});
}

TEST_CASE("a malformed cell is named by its row and column") {
  check_refused("0F0,0B0\n1F0,1X0\n", "row 2, column 2: '1X0' is not an action " + actions);
  check_refused("0F0,,zero\n", "row 1, column 3: 'zero' is not an action " + actions);
  for (const std::string cell : {"F0",
                                 "0F",
                                 "0",
                                 "0F-1",
                                 "-1F0",
                                 "0F0F",
                                 "0F0 0B0",
                                 "0f0",
                                 "0BW0",
                                 "0F99999999999",
                                 "99999999999F0",
                                 "0SEND_F",
                                 "0SEND_X1",
                                 "(0F0;0B0)",
                                 "(0F0;0B0)OVERLAP",
                                 "(0F0;0B00OVERLAP_F_B",
                                 "(0F0;)OVERLAP_F_B",
                                 "()OVERLAP_F_B",
                                 "(0F0;0Q0)OVERLAP_F_B",
                                 "0F0;0B0",
                                 "0UNSHARDED"})
    check_refused("0F0," + cell + ",0B0\n",
                  "row 1, column 2: '" + cell + "' is not an action " + actions);
}

TEST_CASE("only two computations can be joined") {
  for (const std::string cell : {"(0F0)OVERLAP_F_B", "(0F0;0F1;0B0)OVERLAP_F_B",
                                 "(0F0;0SEND_F0)OVERLAP_F_B", "(0UNSHARD;0B0)OVERLAP_F_B"})
    check_refused("0F0," + cell,
                  "row 1, column 2: '" + cell +
                      "' does not join two computations, such as (0F7;7B3)OVERLAP_F_B");
}

TEST_CASE("a file that cannot be a schedule is refused") {
  check_refused("", "has no actions; it needs a row per rank, such as 0F0,0B0");
  check_refused("\n,,\n0SEND_F0\n", "has no actions; it needs a row per rank, such as 0F0,0B0");
  check_refused("0F0,0B0\n2F0,2B0\n", "stages go up to 2, but no row has stage 1");
  check_refused("0F0,2000000000B0\n", "has a stage 2000000000, but only 2 actions");
  check_refused("0F0,0B2147483647\n", "has a microbatch 2147483647, but only 2 actions");
  check_refused("0F2,2B0,1F0\n", "has 3 stages and 3 microbatches, but only 3 actions");
}

TEST_CASE("a malformed cell is quoted without its control characters, and not at length") {
  check_refused("0F0,\x1b[2J\n", "row 1, column 2: '\\x1b[2J' is not an action " + actions);
  const std::string million(1'000'000, 'x'), beginning(80, 'x');
  check_refused("0F0," + million + "\n", "row 1, column 2: '" + beginning +
                                             "... (1000000 bytes)' is not an action " + actions);
  check_refused("0F" + std::string(100, '0') + "\n", "row 1, column 1: '0F" + std::string(78, '0') +
                                                         "... (102 bytes)' is not an action " +
                                                         actions);
}

TEST_CASE("a file that is too long for a schedule is refused") {
  check_refused(std::string(5 << 20, ' '), "has 5242880 bytes, and a schedule at most 4194304");
  check_refused(std::string(100'000, '\n'),
                "has more than 32768 rows, and a schedule has one for each rank");
}
