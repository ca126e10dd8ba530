#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/time/clock.h"
#include "core/trace/open_span.h"
#include "core/trace/record_queue.h"
#include "core/trace/recorder.h"

using namespace lockstep;
using std::chrono::milliseconds;

namespace {

constexpr Picoseconds ms = 1'000'000'000;

std::vector<TraceEvent> open_spans(Recorder& recorder, Picoseconds latest = 0, bool all = false) {
  std::vector<TraceEvent> found;
  recorder.take_open(latest, all, [&](const TraceEvent& event) { found.push_back(event); });
  return found;
}

/// Returns whether `line` begins and ends with these texts.
bool is_like(const std::string& line, const std::string& begin, const std::string& end) {
  return line.starts_with(begin) && line.ends_with(end);
}

}  // namespace

TEST_CASE("a queue that is drained from time to time delivers everything, in order") {
  RecordQueue queue{true};
  std::uint64_t put = 0, got = 0;
  for (const int count : {1, 63, 64, 1, 0, 5000, 3, 1024, 20'000, 1, 70}) {
    for (int i = 0; i < count; ++i)
      queue.push(Record::of({.bytes = static_cast<std::int64_t>(put) + i}, 0, 0, 0, 0));
    put += static_cast<std::uint64_t>(count);
    queue.take([&](const Record::Words& words) {
      REQUIRE(Record::span(words).bytes == static_cast<std::int64_t>(got));
      ++got;
    });
    CHECK(got == put);
  }
  CHECK(queue.pushed() == put);
}

TEST_CASE("threads record on their own lanes while one drains and others read") {
  Recorder recorder;
  constexpr int threads = 3, lanes = 4, count = 30'000;
  std::atomic<bool> over{false};
  std::map<int, std::int64_t> next;
  bool in_order = true;
  const auto take = [&] {
    recorder.take([&](const TraceEvent& event) {
      if (event.kind != TraceEvent::Kind::span) return;
      in_order = in_order && event.span.sequence == next[event.lane]++ &&
                 event.step == event.span.sequence % 7 && event.span.group_size == event.lane &&
                 std::string{event.span.group} == std::to_string(event.lane);
    });
  };
  std::thread taker{[&] {
    while (!over) take();
  }};
  std::atomic<int> torn{0};
  std::thread looker{[&] {
    while (!over)
      for (const std::string& line : recorder.last_operations(1000))
        if (line.starts_with("step ") && line.find("work with rank 5 on ") == std::string::npos)
          ++torn;
  }};
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i)
    running.emplace_back([&, i] {
      std::vector<int> mine;
      for (int k = 0; k < lanes; ++k)
        mine.push_back(recorder.add_lane(std::to_string(i) + " " + std::to_string(k)));
      for (std::int64_t n = 0; n < count; ++n)
        for (const int lane : mine) {
          const Span span{.name = "work",
                          .step = static_cast<int>(n % 7),
                          .peer = 5,
                          .sequence = n,
                          .group = recorder.keep(std::to_string(lane)),
                          .group_size = lane};
          if (n % 3 == 0) {
            recorder.span(lane, span, n, n + 1);
          } else {
            OpenSpan open{recorder, lane, span, n};
            open.end(n + 1);
          }
          recorder.set_step(static_cast<int>(n));
        }
    });
  for (std::thread& thread : running) thread.join();
  over = true;
  taker.join();
  looker.join();
  take();
  CHECK(in_order);
  CHECK(torn == 0);
  CHECK(next.size() == threads * lanes);
  for (const auto& [lane, taken] : next) CHECK(taken == count);
  CHECK(recorder.span_count() == threads * lanes * count);
}

TEST_CASE("a span's own step takes precedence over the recorder's") {
  Recorder recorder;
  recorder.set_step(4);
  recorder.span(0, {.name = "a"}, 0, 1);
  recorder.span(0, {.name = "b", .step = 2}, 1, 2);
  { OpenSpan{recorder, 0, {.name = "c", .step = 3}, 2}.end(3); }
  const auto events = recorder.drain();
  REQUIRE(events.size() == 3);
  CHECK(events[0].step == 4);
  CHECK(events[1].step == 2);
  CHECK(events[2].step == 3);
}

TEST_CASE("any number of lanes can be added, and an unknown lane is an error") {
  Recorder recorder;
  for (int i = 1; i < 300; ++i) CHECK(recorder.add_lane("lane " + std::to_string(i)) == i);
  CHECK(recorder.add_lane("lane 299") == 299);
  recorder.span(299, {.name = "x"}, 0, 1);
  CHECK(recorder.drain().front().lane == 299);
  CHECK_THROWS_AS(recorder.span(300, {.name = "x"}, 0, 1), std::out_of_range);
  CHECK_THROWS_AS(recorder.span(-1, {.name = "x"}, 0, 1), std::out_of_range);
}

TEST_CASE("a span open for 100 ms of wall time is announced, again after twice that, then never") {
  for (const bool modelled : {false, true}) {
    CAPTURE(modelled);
    const Clock clock = modelled ? Clock::modelled(Cluster{}) : Clock::wall();
    Recorder recorder;
    recorder.set_clock(clock);
    recorder.set_step(6);
    const int lane = recorder.add_lane("pp");
    const auto began = std::chrono::steady_clock::now();
    const Picoseconds start = modelled ? 77 : clock.now();
    OpenSpan open{recorder,
                  lane,
                  {.name = "recv", .category = Category::wait, .peer = 2, .group = "pp"},
                  start};
    // Polls as a writer does; the number of polls depends on the machine.
    std::vector<std::chrono::milliseconds> when;
    std::vector<TraceEvent> announced;
    while (when.size() < 3 && when.size() == announced.size() &&
           std::chrono::steady_clock::now() - began < std::chrono::seconds{20}) {
      for (const TraceEvent& event : open_spans(recorder, 1000)) announced.push_back(event);
      if (announced.size() > when.size())
        when.push_back(
            std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - began));
      std::this_thread::sleep_for(milliseconds{2});
    }
    REQUIRE(announced.size() == 3);
    CHECK(when[0] >= milliseconds{99});
    CHECK(when[1] >= milliseconds{199});
    CHECK(when[2] >= milliseconds{399});
    CHECK(announced[0].kind == TraceEvent::Kind::open);
    CHECK(announced[0].lane == lane);
    CHECK(announced[0].step == 6);
    CHECK(std::string{announced[0].span.name} == "recv");
    CHECK(std::string{announced[0].span.group} == "pp");
    CHECK(announced[0].span.peer == 2);
    CHECK(announced[0].start == start);
    // The announced span ends now or, on a modelled clock, at the trace's latest time.
    if (modelled) CHECK(announced[0].end == 1000);
    if (!modelled) CHECK(announced[0].end - start >= 100 * ms);
    open.end(start + 5);
    CHECK(open_spans(recorder, 1000, true).empty());
    const auto events = recorder.drain();
    REQUIRE(events.size() == 1);
    CHECK(events[0].end == start + 5);
  }
}

TEST_CASE("a dropped open span leaves nothing; beyond eight open spans, all are still recorded") {
  Recorder recorder;
  { const OpenSpan dropped{recorder, 0, {.name = "dropped"}, 0}; }
  CHECK(open_spans(recorder, 0, true).empty());
  CHECK(recorder.drain().empty());
  CHECK(recorder.span_count() == 0);
  {
    std::vector<std::unique_ptr<OpenSpan>> many;
    for (int i = 0; i < 12; ++i)
      many.push_back(
          std::make_unique<OpenSpan>(recorder, 0, Span{.name = "one", .sequence = i}, i));
    CHECK(open_spans(recorder, 0, true).size() == RecordQueue::most_open);
    for (auto& each : many) each->end(100);
  }
  const auto events = recorder.drain();
  REQUIRE(events.size() == 12);
  for (int i = 0; i < 12; ++i) {
    CHECK(events[static_cast<std::size_t>(i)].span.sequence == i);
    CHECK(events[static_cast<std::size_t>(i)].start == i);
  }
}

TEST_CASE("a rank that survives an exception ends the spans that it has left open") {
  Recorder recorder;
  try {
    const OpenSpan outer{recorder, 0, {.name = "outer", .step = 4}, 7};
    const OpenSpan inner{recorder, 0, {.name = "inner", .step = 4}, 12};
    throw std::runtime_error("survived");
  } catch (const std::runtime_error&) {
  }
  CHECK(open_spans(recorder, 0, true).size() == 2);
  recorder.drain();
  recorder.end_abandoned(0, 9);
  recorder.end_abandoned(0, 20);  // nothing is left to end
  CHECK(open_spans(recorder, 0, true).empty());
  const auto events = recorder.drain();
  REQUIRE(events.size() == 2);
  CHECK(std::string{events[0].span.name} == "inner");
  CHECK(events[0].start == 12);
  CHECK(events[0].end == 12);
  CHECK(std::string{events[1].span.name} == "outer");
  CHECK(events[1].start == 7);
  CHECK(events[1].end == 9);
}

TEST_CASE("an announced span that is dropped is withdrawn, unless an exception ends it") {
  Recorder recorder;
  {
    const OpenSpan dropped{recorder, 0, {.name = "recv", .step = 4, .peer = 2}, 7};
    CHECK(open_spans(recorder, 0, true).size() == 1);
  }
  auto events = recorder.drain();
  REQUIRE(events.size() == 1);
  CHECK(events[0].kind == TraceEvent::Kind::withdrawn);
  CHECK(std::string{events[0].span.name} == "recv");
  CHECK(events[0].step == 4);
  CHECK(events[0].span.peer == 2);
  CHECK(events[0].start == 7);
  CHECK(recorder.span_count() == 0);

  // The slot is reused: the next span has not been announced.
  { const OpenSpan unseen{recorder, 0, {.name = "recv"}, 8}; }
  CHECK(recorder.drain().empty());

  try {
    const OpenSpan stuck{recorder, 0, {.name = "recv"}, 9};
    CHECK(open_spans(recorder, 0, true).size() == 1);
    throw std::runtime_error("the peer is gone");
  } catch (const std::runtime_error&) {
  }
  CHECK(recorder.drain().empty());
  CHECK(open_spans(recorder, 0, true).size() == 1);
}

TEST_CASE("a span that an exception ends before it was announced is in the trace's end") {
  Recorder recorder;
  try {
    const OpenSpan stuck{recorder, 0, {.name = "send", .peer = 3}, 9};
    throw std::runtime_error("a deadlock");
  } catch (const std::runtime_error&) {
  }
  const auto open = open_spans(recorder, 0, true);
  REQUIRE(open.size() == 1);
  CHECK(open[0].span.peer == 3);
  REQUIRE(recorder.last_operations(8).size() == 1);
}

TEST_CASE("whenever an announced span is dropped, its announcement is withdrawn") {
  Recorder recorder;
  std::atomic<bool> over{false};
  std::map<Picoseconds, int> announced;  // by start, which is unique
  const auto take = [&] {
    recorder.take([&](const TraceEvent& event) {
      if (event.kind == TraceEvent::Kind::withdrawn) announced.erase(event.start);
    });
    recorder.take_open(0, true, [&](const TraceEvent& event) { ++announced[event.start]; });
  };
  std::thread taker{[&] {
    while (!over) take();
  }};
  for (Picoseconds start = 0; start < 100'000; ++start) {
    const OpenSpan dropped{recorder, 0, {.name = "recv"}, start};
    if (start % 16 == 0) std::this_thread::yield();
  }
  over = true;
  taker.join();
  take();
  CHECK(announced.empty());
}

TEST_CASE("a rank can report its last operations and its current one, traced or not") {
  for (const bool on : {true, false}) {
    CAPTURE(on);
    Clock clock = Clock::wall();
    clock.set_start_nanoseconds(clock.start_nanoseconds() - 10'000'000'000);
    Recorder recorder{on};
    recorder.set_clock(clock);
    CHECK(recorder.last_operations(5).empty());
    const int lane = recorder.add_lane("pp: receive");
    const Picoseconds now = clock.now();
    recorder.set_step(3);
    for (int i = 0; i < 100; ++i)
      recorder.span(0, {.name = "f", .category = Category::forward, .stage = 1, .microbatch = i},
                    now - (8'500 - i) * ms, now - (8'500 - i) * ms + 12'300'000'000);
    recorder.span(lane,
                  {.name = "recv",
                   .category = Category::communication,
                   .peer = 2,
                   .role = MessageRole::receives},
                  now - 8900 * ms, now - 4000 * ms);
    const OpenSpan outer{recorder, 0, {.name = "F", .category = Category::wait}, now - 9000 * ms};
    const OpenSpan inner{recorder,
                         lane,
                         {.name = "send",
                          .category = Category::wait,
                          .step = 2,
                          .layer = 1,
                          .peer = 0,
                          .role = MessageRole::sends},
                         now - 1500 * ms};
    const auto lines = recorder.last_operations(3);
    REQUIRE(lines.size() == 5);
    CHECK(is_like(lines[0], "step 3, PP:1F98 on compute: 12.3 ms, ended 8.", " s ago"));
    CHECK(is_like(lines[1], "step 3, PP:1F99 on compute: 12.3 ms, ended 8.", " s ago"));
    CHECK(is_like(lines[2], "step 3, recv from rank 2 on pp: receive: 4.9 s, ended 4.", " s ago"));
    CHECK(is_like(lines[3], "step 3, F on compute: open for 9.", " s"));
    CHECK(is_like(lines[4], "step 2, send of layer 1 to rank 0 on pp: receive: open for 1.", " s"));
    CHECK(recorder.last_operations(20).size() == 22);  // a lane remembers at least 20
    CHECK(recorder.drain().size() == (on ? 101 : 0));
  }
}

TEST_CASE("on the modelled clock durations are labelled modelled, except an open span's") {
  const Clock clock = Clock::modelled(Cluster{});
  Recorder recorder{false};
  recorder.set_clock(clock);
  recorder.span(0, {.name = "a"}, 0, 2 * ms);
  const OpenSpan open{recorder, 0, {.name = "b"}, 2 * ms};
  const auto lines = recorder.last_operations(3);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "a on compute: 2 ms of modelled time");
  CHECK(lines[1].starts_with("b on compute: open for "));
  CHECK(lines[1].find("modelled") == std::string::npos);
}
