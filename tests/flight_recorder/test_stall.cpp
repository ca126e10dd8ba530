// Stalls that are solved by hand: which rank waits for which, and the sentences that name them.
#include <doctest/doctest.h>

#include "core/base/error.h"
#include "tests/flight_recorder/jobs.h"
#include "viz/read/flight_recorder/rank_list.h"

using namespace lockstep;
using namespace lockstep::flight;

namespace {

std::string first_sentence(const Stall& stall) {
  return stall_sentences(stall).front();
}
std::string all_sentences(const Stall& stall) {
  std::string all;
  for (const std::string& each : stall_sentences(stall)) all += each + "\n";
  return all;
}
bool says(const Stall& stall, const std::string& words) {
  const std::string all = all_sentences(stall);
  if (all.find(words) == std::string::npos) MESSAGE(all);
  return all.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("three ranks wait in a collective that the fourth has not called") {
  HandMade run;
  run.group("0", "default_pg", "[0, 1, 2, 3]");
  for (int rank = 0; rank < 4; ++rank) run.call(rank, "0", 41, "all_reduce", "completed");
  for (const int rank : {0, 1, 3}) run.call(rank, "0", 42, "all_gather", "started");
  const Stall stall = run.stall();
  CHECK(
      first_sentence(stall) ==
      "Ranks 0, 1 and 3 wait, directly or not, for rank 2, which has not called all_gather #42 in "
      "'default_pg'.");
  CHECK(says(stall,
             "Rank 2 has no operation pending: its last call, all_reduce #41 in "
             "'default_pg', has completed."));
  REQUIRE(stall.groups.size() == 1);
  CHECK(stall.groups[0].operation == "all_gather #42");
  CHECK(stall.groups[0].waiting == std::vector{0, 1, 3});
  CHECK(stall.groups[0].not_called == std::vector{2});
  CHECK(stall_summary(stall).find("'default_pg'  all_gather #42     ranks 0, 1 and 3  rank 2") !=
        std::string::npos);
}

TEST_CASE("a chain of waits through two groups ends at one rank") {
  HandMade run;
  run.group("a", "tp", "[0, 1]");
  run.group("b", "dp", "[1, 2]");
  run.call(0, "a", 1, "all_reduce", "started");
  run.call(1, "b", 1, "all_reduce", "started");
  run.silent(2);
  const Stall stall = run.stall();
  CHECK(first_sentence(stall) ==
        "Ranks 0 and 1 wait, directly or not, for rank 2, which has not "
        "called all_reduce #1 in 'dp'.");
  CHECK(says(stall, "Rank 2 has not called anything yet."));
  CHECK(stall.find(0)->state == StalledRank::State::waiting);
  CHECK(stall.find(2)->state == StalledRank::State::silent);
  CHECK(stall.unclear.empty());
}

TEST_CASE("different orders of two collectives are a deadlock") {
  HandMade run;
  run.group("a", "tp", "[0, 1]");
  run.group("b", "dp", "[0, 1]");
  run.call(0, "a", 1, "all_reduce", "started");
  run.call(1, "b", 1, "broadcast", "started");
  run.group("c", "", "[1, 2]");
  run.call(2, "c", 1, "barrier", "started");
  const Stall stall = run.stall();
  REQUIRE(stall.sinks.size() == 1);
  CHECK(stall.sinks[0].cycle());
  CHECK(
      first_sentence(stall) ==
      "Rank 2 waits, directly or not, for ranks 0 and 1. Ranks 0 and 1 wait for one another, a "
      "deadlock: rank 0 waits in all_reduce #1 in 'tp' for rank 1, which waits in broadcast #1 in "
      "'dp' for rank 0.");
}

TEST_CASE("calls of one collective that differ") {
  for (const char* what : {"operation", "size", "type"}) {
    CAPTURE(what);
    HandMade run;
    run.group("0", "tp", "[0, 1, 2]");
    for (int rank = 0; rank < 3; ++rank) {
      const bool other = rank == 1;
      DumpJson& entry =
          run.call(rank, "0", 7, other && *what == 'o' ? "broadcast" : "all_reduce", "started");
      const int size = other && *what == 's' ? 5 : 4;
      entry["input_sizes"] = entry["output_sizes"] = DumpJson::array({DumpJson::array({size})});
      entry["input_dtypes"] = entry["output_dtypes"] =
          DumpJson::array({other && *what == 't' ? "Half" : "Float"});
    }
    const Stall stall = run.stall();
    REQUIRE(stall.groups.size() == 1);
    CHECK(stall.groups[0].mismatch());
    CHECK(stall.groups[0].calls[1].ranks == std::vector{1});
    REQUIRE(stall.waits.size() == 2);
    for (const Wait& wait : stall.waits) {
      const bool one = wait.from == std::vector{1};
      CHECK(wait.from == (one ? std::vector{1} : std::vector{0, 2}));
      CHECK(wait.to == (one ? std::vector{0, 2} : std::vector{1}));
    }
    CHECK(says(stall,
               "as number 7 in 'tp', ranks 0 and 2 called all_reduce of [4] Float, but rank "
               "1 called"));
    CHECK(says(stall, "wait for one another: "));
  }
}

TEST_CASE("a device has not started an operation that other devices run") {
  HandMade run;
  run.group("0", "dp", "[0, 1, 2]");
  run.call(0, "0", 9, "all_reduce", "started");
  run.call(1, "0", 9, "all_reduce", "started");
  run.call(2, "0", 8, "all_reduce", "completed");
  run.call(2, "0", 9, "all_reduce", "scheduled");
  DumpJson& older =
      run.call(2, "0", 7, "all_reduce", "started");  // so that the dump records starts
  older["retired"] = true;
  older["time_discovered_completed_ns"] = 5;
  const Stall stall = run.stall();
  CHECK(first_sentence(stall) ==
        "Ranks 0 and 1 wait, directly or not, for rank 2, which has called "
        "all_reduce #9 in 'dp', but whose device has not started it.");
}

TEST_CASE("a device that records no starts may wait for one that has not started") {
  HandMade run;
  run.group("0", "dp", "[0, 1]");
  run.call(0, "0", 9, "all_reduce", "scheduled");  // perhaps started: this dump has no starts
  run.call(1, "0", 8, "all_reduce", "started")["time_discovered_completed_ns"] = 5;
  run.call(1, "0", 9, "all_reduce", "scheduled");
  CHECK(run.stall().waits.empty());
}

TEST_CASE("a cycle through an operation that its device has not started has an awaited rank") {
  HandMade run;
  run.group("a", "tp", "[0, 1]");
  run.group("b", "dp", "[0, 1]");
  run.call(0, "b", 1, "all_reduce", "started")["time_discovered_completed_ns"] = 5;
  run.call(1, "b", 1, "all_reduce", "completed");
  run.call(0, "a", 1, "all_reduce", "scheduled");
  run.call(1, "b", 2, "all_reduce", "started");
  const Stall stall = run.stall();
  CHECK(first_sentence(stall) ==
        "Rank 1 waits, directly or not, for rank 0, which has not called all_reduce #2 in 'dp'.");
  REQUIRE(stall.sinks.size() == 1);
  CHECK(stall.sinks[0].without == Sink::Without::queued);
}

TEST_CASE("no rank waits for another") {
  HandMade run;
  run.group("0", "dp", "[0, 1]");
  run.call(0, "0", 1, "all_reduce", "started");
  run.call(1, "0", 1, "all_reduce", "started");
  CHECK(first_sentence(run.stall()) ==
        "No rank waits for another: ranks 0 and 1 are in operations that all their ranks have "
        "called.");
  HandMade done;
  done.group("0", "dp", "[0, 1]");
  done.call(0, "0", 1, "all_reduce", "completed");
  done.call(1, "0", 1, "all_reduce", "completed");
  CHECK(first_sentence(done.stall()) == "No rank waits for another: no operation is pending.");
}

TEST_CASE("dumps of two runs contradict one another") {
  HandMade small, large;
  small.group("0", "default_pg", "[0, 1]");
  small.call(0, "0", 1, "all_reduce", "started");
  small.call(1, "0", 1, "all_reduce", "started");
  large.group("0", "default_pg", "[0, 1, 2]");
  for (int rank = 0; rank < 3; ++rank) large.call(rank, "0", 1, "all_reduce", "started");
  Job both = small.job();
  both.dumps.push_back(large.job().dumps[2]);
  CHECK_THROWS_WITH_AS(
      stall_of(both),
      "process group '0' has ranks 0 and 1 according to the dump of rank 0, but ranks 0-2 "
      "according "
      "to that of rank 2: these are dumps of different runs; give those of one run",
      UsageError);
}

TEST_CASE("a dump that ends hours before the others is noted") {
  HandMade run;
  run.group("0", "dp", "[0, 1]");
  const std::int64_t hour = 3'600'000'000'000, now = 1'700'000'000'000'000'000;
  run.call(0, "0", 1, "all_reduce", "started")["time_created_ns"] = now;
  DumpJson& old = run.call(1, "0", 1, "all_reduce", "started");
  old["time_created_ns"] = now - hour;
  CHECK(run.stall().notes.empty());
  old["time_created_ns"] = now - 3 * hour;
  REQUIRE(run.stall().notes.size() == 1);
  CHECK(run.stall().notes[0].find("the last call of rank 1 was more than 2 hours before") !=
        std::string::npos);
}

TEST_CASE("a rank whose dump is missing") {
  HandMade run;
  run.group("0", "dp", "[0, 1, 2]");
  for (const int rank : {0, 2}) run.call(rank, "0", 4, "all_reduce", "started");
  run.silent(1);
  const Stall stall = run.stall({1});
  CHECK(first_sentence(stall) ==
        "Ranks 0 and 2 wait, directly or not, for rank 1, whose dump is missing.");
  // If a rank with a dump has not called the collective, the missing dump explains nothing.
  HandMade late;
  late.group("0", "dp", "[0, 1, 2]");
  late.call(0, "0", 4, "all_reduce", "started");
  late.silent(1);
  late.silent(2);
  CHECK(first_sentence(late.stall({1})) ==
        "Rank 0 waits, directly or not, for rank 2, which has "
        "not called all_reduce #4 in 'dp'.");
  CHECK(says(late.stall({1}), "The dump of rank 1 is missing."));
}

TEST_CASE("a group without a list of members: ranks with dumps are not missing") {
  // The default group contains all ranks, even one that has not called anything in it.
  HandMade all;
  for (const int rank : {0, 1})
    all.call(rank, "0", 1, "all_reduce", "started")["process_group"][2] = "default_pg";
  all.silent(2);
  CHECK(first_sentence(all.stall()) ==
        "Ranks 0 and 1 wait, directly or not, for rank 2, which has not called all_reduce #1 in "
        "'default_pg'.");
  // Any other group may have members that have not called anything in it.
  HandMade some;
  for (const int rank : {0, 1}) some.call(rank, "7", 1, "all_reduce", "started");
  some.silent(2);
  const Stall stall = some.stall();
  CHECK(stall.waits.empty());
  CHECK(stall.groups[0].members == std::vector{0, 1});
  CHECK(stall.find(0)->may_lack_members);
}

TEST_CASE("a rank waits in the first of its pending collectives") {
  HandMade run;
  run.group("0", "dp", "[0, 1]");
  for (const int sequence : {3, 4}) run.call(0, "0", sequence, "all_reduce", "started");
  run.call(1, "0", 2, "all_reduce", "completed");
  CHECK(first_sentence(run.stall()) ==
        "Rank 0 waits, directly or not, for rank 1, which has not called all_reduce #3 in 'dp'.");
}

TEST_CASE("a list that omits a rank with calls in the group, or repeats a member, is disregarded") {
  HandMade run;
  run.group("5", "tp", "[0, 1]");  // ranks in the group, as some versions of torch write
  run.group("6", "dp", "[2, 2, 3]");
  for (const int rank : {0, 1}) run.silent(rank);
  for (const int rank : {2, 3})
    for (const char* group : {"5", "6"}) run.call(rank, group, 1, "all_reduce", "completed");
  const Stall stall = run.stall();
  REQUIRE(stall.groups.size() == 2);
  for (const StalledGroup& group : stall.groups) CHECK(group.members == std::vector{2, 3});
}

TEST_CASE("the record numbers order the calls, not the file") {
  HandMade run;
  run.group("0", "dp", "[0, 1]");
  run.call(0, "0", 2, "all_gather", "completed")["record_id"] = 9;
  run.call(0, "0", 1, "all_reduce", "completed")["record_id"] = 8;
  run.silent(1);
  CHECK(run.stall().find(0)->last == "all_gather #2 in 'dp'");
}

TEST_CASE("the reason for a rank is preferably a collective") {
  HandMade run;
  run.group("a", "pp", "[0, 2]");
  run.group("b", "dp", "[1, 2]");
  run.call(0, "a", 1, "recv 0<-1", "started");
  run.call(1, "b", 1, "all_reduce", "started");
  run.silent(2);
  CHECK(first_sentence(run.stall()) ==
        "Ranks 0 and 1 wait, directly or not, for rank 2, which has not called all_reduce #1 in "
        "'dp'.");
}

TEST_CASE("lists of ranks are written as ranges, and read") {
  CHECK(rank_words({3}) == "rank 3");
  CHECK(rank_words({0, 1}) == "ranks 0 and 1");
  CHECK(rank_words({0, 1, 2, 4, 5, 7}) == "ranks 0-2, 4, 5 and 7");
  CHECK(rank_words({0, 2, 4, 6}, 2) == "ranks 0, 2 and 2 more");
  CHECK(parse_rank_list(" [0, 1,22 ] ") == std::vector{0, 1, 22});
  CHECK(parse_rank_list("[]") == std::vector<int>{});
  for (const char* wrong : {"", "0, 1", "[0", "[0,]", "[a]", "[-1]", "[0] x", "[99999999]"})
    CHECK(!parse_rank_list(wrong));
}
