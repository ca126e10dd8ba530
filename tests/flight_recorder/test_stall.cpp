// Stalls worked out by hand: who waits for whom, and the sentences that say so.
#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/flight_recorder/rank_list.h"
#include "tests/flight_recorder/jobs.h"

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
  CHECK(stall.groups[0].last == "all_reduce #41");
  CHECK(stall.groups[0].waiting == std::vector{0, 1, 3});
  CHECK(stall.groups[0].not_called == std::vector{2});
  CHECK(stall_summary(stall).find("'default_pg'  all_gather #42  ranks 0, 1 and 3  rank 2") !=
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
    CHECK(says(stall,
               "as number 7 in 'tp', ranks 0 and 2 called all_reduce of [4] Float, but rank "
               "1 called"));
    CHECK(says(stall, "wait for one another: "));
  }
  HandMade uneven;  // an all_to_all's sizes may differ, as may those of a scatter's root
  uneven.group("0", "ep", "[0, 1, 2]");
  for (const int rank : {0, 1}) {
    uneven.call(rank, "0", 1, "all_to_all", "started")["input_sizes"] =
        DumpJson::array({DumpJson::array({4 + rank})});
  }
  uneven.silent(2);
  CHECK(!uneven.stall().groups[0].mismatch());
}

TEST_CASE("sends and receives without partners") {
  HandMade run;
  run.group("p", "pp", "[10, 11, 12]");
  for (int rank = 0; rank < 13; ++rank) run.silent(rank);
  run.call(10, "p", 1, "send 0->1", "completed");
  run.call(10, "p", 2, "send 0->1", "started");
  run.call(10, "p", 3, "recv 0<-1", "started");
  run.call(11, "p", 1, "recv 1<-0", "completed");
  run.call(11, "p", 2, "recv 1<-0", "started");
  run.call(11, "p", 3, "recv 1<-2", "started");
  const Stall stall = run.stall();
  // Both ranks have called the second send and its receive, but nobody has sent what rank 10
  // receives.
  REQUIRE(stall.waits.size() == 2);
  CHECK(stall.waits[0].operation == "recv from rank 11");
  CHECK(stall.waits[0].from == std::vector{10});
  CHECK(stall.waits[1].operation == "recv from rank 12");
  CHECK(first_sentence(stall) ==
        "Ranks 10 and 11 wait, directly or not, for rank 12, which has not "
        "sent what rank 11 receives in 'pp'.");
}

TEST_CASE("operations of a coalesced batch have the state of the batch") {
  HandMade run;
  run.group("p", "pp", "[0, 1]");
  // torch never updates the states of the operations themselves.
  for (const int rank : {0, 1}) {
    run.call(rank, "p", 5, rank == 0 ? "send 0->1" : "recv 1<-0", "scheduled");
    DumpJson& end = run.call(rank, "p", 5, "coalesced", "completed");
    end["p2p_seq_id"] = 5;
    end["collective_seq_id"] = 0;
    end["is_p2p"] = true;
  }
  CHECK(run.stall().waits.empty());
  run.call(1, "p", 6, "recv 1<-0", "scheduled");
  DumpJson& end = run.call(1, "p", 6, "coalesced", "started");
  end["p2p_seq_id"] = 6;
  end["is_p2p"] = true;
  const Stall stall = run.stall();
  REQUIRE(stall.waits.size() == 1);
  CHECK(stall.waits[0].to == std::vector{0});

  HandMade buffered;  // the send has completed, so it does not wait for its receiver
  buffered.group("p", "pp", "[0, 1]");
  buffered.call(0, "p", 1, "send 0->1", "scheduled");
  DumpJson& sent = buffered.call(0, "p", 1, "coalesced", "completed");
  sent["p2p_seq_id"] = 1;
  sent["is_p2p"] = true;
  buffered.silent(1);
  CHECK(buffered.stall().waits.empty());

  HandMade collectives;
  collectives.group("0", "dp", "[0, 1]");
  for (const int rank : {0, 1})
    for (const char* name : {"_all_gather_base", "_all_gather_base", "ALLGATHER_coalesced"})
      if (rank == 0) collectives.call(rank, "0", 3, name, "scheduled");
  collectives.silent(1);
  CHECK(collectives.stall().groups[0].operation == "2 coalesced _all_gather_base #3");
}

TEST_CASE("a rank whose device has not started an operation that others run") {
  HandMade run;
  run.group("0", "dp", "[0, 1, 2]");
  run.call(0, "0", 9, "all_reduce", "started");
  run.call(1, "0", 9, "all_reduce", "started");
  run.call(2, "0", 8, "all_reduce", "completed");
  run.call(2, "0", 9, "all_reduce", "scheduled");
  DumpJson& older = run.call(2, "0", 7, "all_reduce", "started");  // so that the dump records starts
  older["retired"] = true;
  older["time_discovered_completed_ns"] = 5;
  const Stall stall = run.stall();
  CHECK(first_sentence(stall) ==
        "Ranks 0 and 1 wait, directly or not, for rank 2, which has called "
        "all_reduce #9 in 'dp', but whose device has not started it.");
}

TEST_CASE("no rank waits for one that has not come") {
  HandMade run;
  run.group("0", "dp", "[0, 1]");
  run.call(0, "0", 1, "all_reduce", "started");
  run.call(1, "0", 1, "all_reduce", "started");
  CHECK(first_sentence(run.stall()) ==
        "No rank waits for one that has not come: ranks 0 and 1 are inside operations that all "
        "their ranks have called.");
  HandMade done;
  done.group("0", "dp", "[0, 1]");
  done.call(0, "0", 1, "all_reduce", "completed");
  done.call(1, "0", 1, "all_reduce", "completed");
  CHECK(first_sentence(done.stall()) == "No rank waits for another: no operation is pending.");
}

TEST_CASE("a rank that went on after a pending operation may have stalled") {
  HandMade run;
  run.group("p", "pp", "[0, 1, 2]");
  // Rank 0 sends without waiting, calls a collective that completes, and stalls. Rank 1 waits for
  // rank 2, which waits for rank 0: a cycle only if rank 0 waits for its send.
  run.group("t", "tp", "[0, 3]");
  run.call(0, "p", 1, "send 0->1", "scheduled");
  run.call(0, "t", 1, "all_reduce", "completed");
  run.call(3, "t", 1, "all_reduce", "completed");
  run.call(1, "p", 1, "recv 1<-2", "scheduled");
  run.call(2, "p", 1, "recv 2<-0", "scheduled");
  const Stall stall = run.stall();
  REQUIRE(stall.sinks.size() == 1);
  CHECK(stall.sinks[0].ranks == std::vector{0});
  CHECK(stall.sinks[0].without == Sink::Without::overlapped);
  CHECK(says(stall, "Rank 0 went on after its pending operations"));
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

TEST_CASE("a missing dump is named") {
  HandMade run;
  run.group("0", "dp", "[0, 1, 2]");
  for (const int rank : {0, 2}) run.call(rank, "0", 4, "all_reduce", "started");
  run.silent(1);
  const Stall stall = run.stall({1});
  CHECK(first_sentence(stall) ==
        "Ranks 0 and 2 wait, directly or not, for rank 1, whose dump is missing.");
  // If another rank is known not to have arrived, the analysis does not guess about the missing
  // dump.
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

TEST_CASE("ranks as ranges") {
  CHECK(rank_words({3}) == "rank 3");
  CHECK(rank_words({0, 1}) == "ranks 0 and 1");
  CHECK(rank_words({0, 1, 2, 4, 5, 7}) == "ranks 0-2, 4, 5 and 7");
  CHECK(rank_words({0, 2, 4, 6}, 2) == "ranks 0, 2 and 2 more");
  CHECK(parse_rank_list(" [0, 1,22 ] ") == std::vector{0, 1, 22});
  CHECK(parse_rank_list("[]") == std::vector<int>{});
  for (const char* wrong : {"", "0, 1", "[0", "[0,]", "[a]", "[-1]", "[0] x", "[99999999]"})
    CHECK(!parse_rank_list(wrong));
}
