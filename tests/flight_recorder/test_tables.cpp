// The tables of a summary.
#include <doctest/doctest.h>

#include "viz/read/flight_recorder/words.h"

using namespace lockstep::flight;

namespace {

bool contains(const Stall& stall, const std::string& words) {
  return stall_summary(stall).find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a group in which only a message is pending is not idle") {
  Stall stall{.source = "2 traces", .evidence = "trace"};
  for (const char* title : {"'pp'", "'tp'"}) stall.groups.push_back({.title = title});
  stall.waits.push_back({.from = {0}, .to = {1}, .group = 0, .operation = "recv", .is_p2p = true});
  find_awaited(stall);
  CHECK(contains(stall, "'pp'   send, recv         rank 0   rank 1"));
  CHECK(contains(stall, "\n1 other group has nothing pending\n"));
}

TEST_CASE("a table shows 64 rows and counts the rest") {
  Stall stall{.source = "70 traces", .evidence = "trace"};
  for (int i = 0; i < 70; ++i) {
    stall.ranks.push_back({.rank = i});
    stall.groups.push_back({.title = std::to_string(i), .operation = "all_reduce #1"});
  }
  CHECK(contains(stall, "\n6 more groups\n"));
  CHECK(contains(stall, "\n6 more ranks\n"));
  CHECK(contains(stall, "\n63 "));
  CHECK(!contains(stall, "\n64 "));
}
