#include <doctest/doctest.h>

#include <random>

#include "viz/read/kineto/mesh.h"
#include "viz/read/kineto/waits.h"

using namespace lockstep;
using namespace lockstep::kineto;

namespace {

Call call(CallKind kind, Picoseconds start, Picoseconds end) {
  return {.kind = kind, .time = {start, end}};
}

}  // namespace

TEST_CASE("an idle rank waits for the calls that end while it is idle") {
  const std::vector<Call> calls = {
      call(CallKind::all_reduce, 5, 30), call(CallKind::receive, 12, 20),
      call(CallKind::send, 10, 25),      // nobody waits for it
      call(CallKind::all_gather, 0, 9),  // ends while the rank computes
      call(CallKind::barrier, 35, 60),   // ends after the rank has gone on
  };
  const std::vector<Wait> waits = waits_in({{10, 40}}, calls, {});
  REQUIRE(waits.size() == 2);
  CHECK(waits[0].call == 1);
  CHECK(waits[0].time == Interval{12, 20});
  CHECK(waits[1].call == 0);
  CHECK(waits[1].time == Interval{20, 30});
}

TEST_CASE("a rank waits for a late peer until it starts, and then for the call") {
  const std::vector<Call> calls = {call(CallKind::all_reduce, 5, 30)};
  const std::vector<Wait> waits = waits_in({{10, 40}}, calls, {{0, {.rank = 3, .start = 22}}});
  REQUIRE(waits.size() == 2);
  CHECK(waits[0].time == Interval{10, 22});
  CHECK(waits[0].late_rank == 3);
  CHECK(waits[1].time == Interval{22, 30});
  CHECK(waits[1].late_rank == -1);
  // The peer started before the rank was idle.
  const std::vector<Wait> later = waits_in({{25, 40}}, calls, {{0, {.rank = 3, .start = 22}}});
  REQUIRE(later.size() == 1);
  CHECK(later[0].time == Interval{25, 30});
  CHECK(later[0].late_rank == -1);
}

TEST_CASE("waits lie in idle time and in their calls, and never overlap") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random{seed};
    const auto below = [&](int n) { return std::uniform_int_distribution{0, n - 1}(random); };
    std::vector<Interval> gaps;
    for (int i = 0; i < 10; ++i) {
      const Picoseconds start = below(1000);
      gaps.push_back({start, start + below(60)});
    }
    std::vector<Call> calls;
    LatePeers late;
    for (std::size_t i = 0; i < 20; ++i) {
      const Picoseconds start = below(1000), end = start + 1 + below(100);
      calls.push_back(call(below(3) == 0 ? CallKind::send : CallKind::all_reduce, start, end));
      if (below(2) == 0) late[i] = {.rank = 1, .start = std::min<Picoseconds>(start + 30, end)};
    }
    const Intervals idle = merged(gaps);
    std::vector<Interval> times;
    Picoseconds sum = 0;
    for (const Wait& wait : waits_in(idle, calls, late)) {
      const Call& of = calls[wait.call];
      CHECK(of.kind != CallKind::send);
      CHECK(wait.time.start < wait.time.end);
      CHECK(wait.time.start >= of.time.start);
      CHECK(wait.time.end <= of.time.end);
      times.push_back(wait.time);
      sum += wait.time.end - wait.time.start;
    }
    const Intervals waited = merged(times);
    CHECK(length(waited) == sum);
    CHECK(difference(waited, idle).empty());
  }
}

TEST_CASE("the mesh has the axes that PyTorch describes, outermost first") {
  Trace trace;
  trace.world_size = 8;
  trace.groups = {{"0", "default_pg", 8, {0, 1, 2, 3, 4, 5, 6, 7}},
                  {"1", "mesh_cp", 2, {0, 1}},
                  {"2", "mesh_dp", 4, {0, 2, 4, 6}}};
  using Mesh = std::vector<std::pair<std::string, int>>;
  CHECK(mesh_of({trace}) == Mesh{{"dp", 4}, {"cp", 2}});
  trace.world_size = 16;  // another axis is unknown
  CHECK(mesh_of({trace}).empty());
}
