// Pending sends and receives: the rank that each waits for.
#include <doctest/doctest.h>

#include "tests/flight_recorder/jobs.h"

using namespace lockstep;
using namespace lockstep::flight;

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
  // The second send has its receive, but no rank has sent the messages that ranks 10 and 11
  // receive.
  REQUIRE(stall.waits.size() == 2);
  CHECK(stall.waits[0].operation == "recv");
  CHECK(stall.waits[0].from == std::vector{10});
  CHECK(stall.waits[0].to == std::vector{11});
  CHECK(stall.waits[1].operation == "recv");
  CHECK(stall.waits[1].to == std::vector{12});
  CHECK(stall_sentences(stall)[0] ==
        "Ranks 10 and 11 wait, directly or not, for rank 12, which has not "
        "sent what rank 11 receives in 'pp'.");
}

TEST_CASE("each pending send needs a receive of its own") {
  HandMade run;
  run.group("p", "pp", "[0, 1]");
  for (const int sequence : {1, 2}) run.call(0, "p", sequence, "send 0->1", "started");
  run.call(1, "p", 1, "recv 1<-0", "started");
  const Stall stall = run.stall();
  REQUIRE(stall.waits.size() == 1);
  CHECK(stall.waits[0].from == std::vector{0});
  CHECK(stall.waits[0].operation == "send");
  run.call(1, "p", 2, "recv 1<-0", "started");
  CHECK(run.stall().waits.empty());
}

TEST_CASE("a send to the rank itself waits for no other") {
  HandMade run;
  run.group("p", "pp", "[0, 1]");
  run.call(0, "p", 1, "send 0->0", "started");
  run.silent(1);
  CHECK(run.stall().waits.empty());
}

TEST_CASE("sends and receives show the order of a group that no dump lists") {
  HandMade run;  // rank 7 is the first in the group, then rank 4, then rank 9
  for (int rank = 0; rank < 10; ++rank) run.silent(rank);
  run.call(7, "p", 1, "send 0->2", "completed");
  run.call(9, "p", 1, "recv 2<-0", "completed");
  run.call(4, "p", 1, "recv 1<-2", "started");
  const Stall stall = run.stall();
  REQUIRE(stall.waits.size() == 1);
  CHECK(stall.waits[0].from == std::vector{4});
  CHECK(stall.waits[0].to == std::vector{9});
}

TEST_CASE("a rank that continued past a pending operation may have stalled") {
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
  CHECK(stall_sentences(stall)[1].starts_with("Rank 0 continued past its pending operations"));
}

TEST_CASE("an awaited rank that continued past its pending send may have stalled, too") {
  HandMade run;
  run.group("p", "pp", "[0, 1, 2]");
  run.group("t", "tp", "[1, 3]");
  run.call(0, "p", 1, "recv 0<-1", "started");
  run.call(1, "p", 1, "send 1->2", "scheduled");
  for (const int rank : {1, 3}) run.call(rank, "t", 1, "all_reduce", "completed");
  run.silent(2);
  const Stall stall = run.stall();
  REQUIRE(stall.sinks.size() == 1);
  CHECK(stall.sinks[0].ranks == std::vector{2});
  CHECK(stall.unclear == std::vector{1});
}

TEST_CASE("two awaited ranks of one cycle are not among the waiting ranks") {
  Stall stall;
  for (int rank = 0; rank < 4; ++rank) stall.ranks.push_back({.rank = rank});
  for (const auto& [from, to] : {std::pair{2, 0}, {0, 3}, {3, 1}, {1, 2}})
    stall.waits.push_back(
        {.from = {from}, .to = {to}, .operation = "send", .is_p2p = true, .overlapped = from < 2});
  find_awaited(stall);
  CHECK(stall_sentences(stall)[0] == "Ranks 2 and 3 wait, directly or not, for ranks 0 and 1.");
}
