// Stalls at the end of a trace of four ranks, two stages of two.
#include <doctest/doctest.h>

#include "viz/read/flight_recorder/trace_job.h"

using namespace lockstep;
using namespace lockstep::flight;

namespace {

struct Trace {
  Timeline timeline;

  Trace() {
    timeline.run().ranks = 4;
    timeline.run().mesh = {{"pp", 2}, {"tp", 2}};
  }
  TimelineSpan span(Picoseconds at, const char* name, const char* group, int peer, int sequence) {
    TimelineSpan span{.start = at, .end = at + 10, .step = 0};
    span.name = timeline.intern(name);
    span.group = timeline.intern(group);
    span.category = Category::communication;
    span.peer = peer;
    span.sequence = sequence;
    span.group_size = *group == '\0' ? -1 : 2;
    if (sequence < 0) span.role = *name == 's' ? MessageRole::sends : MessageRole::receives;
    return span;
  }
  std::optional<Stall> stall() {
    timeline.settle();
    return stall_of(timeline);
  }
};

}  // namespace

TEST_CASE("a group's members are those that the trace lists") {
  Trace trace;
  for (const int rank : {2, 3}) trace.timeline.add_group(rank, trace.timeline.intern("tp"), {2, 3});
  for (const int sequence : {1, 2})
    trace.timeline.add(3, 1, trace.span(100 * sequence, "all_reduce", "tp", -1, sequence));
  trace.timeline.announce(2, 0, trace.span(300, "all_reduce", "tp", -1, 3));
  const auto stall = trace.stall();
  REQUIRE(stall);
  REQUIRE(stall->waits.size() == 1);
  CHECK(stall->waits[0].from == std::vector{2});
  CHECK(stall->waits[0].to == std::vector{3});
  CHECK(stall->find(3)->last == "all_reduce #2 in 'tp'");
  REQUIRE(stall->notes.size() == 1);
  CHECK(stall->notes[0].starts_with("The trace of ranks 2 and 3 has no end"));
}

TEST_CASE("a message without a group belongs to the pipeline") {
  Trace trace;
  trace.timeline.add(2, 1, trace.span(100, "all_reduce", "tp", 3, 1));
  trace.timeline.announce(0, 0, trace.span(300, "recv", "", 2, -1));
  const auto stall = trace.stall();
  REQUIRE(stall);
  REQUIRE(stall->waits.size() == 1);
  CHECK(stall->waits[0].to == std::vector{2});
  CHECK(stall->groups[static_cast<std::size_t>(stall->waits[0].group)].axis == "pp");
}
