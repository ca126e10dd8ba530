// The object under the cursor, and the viewer's description of it.
#include <doctest/doctest.h>

#include "tests/viz/sample_run.h"
#include "viz/data/selection/finding.h"
#include "viz/read/timeline/older.h"
#include "viz/read/timeline/reader.h"

using namespace lockstep;
using namespace lockstep::viz;

TEST_CASE("the item under the cursor, in words") {
  Timeline timeline;
  read_sample(sample_traces(sample_1f1b(4, 8, 2)), timeline);
  const RankTimeline& rank = *timeline.find_rank(1);
  const SpanRow& row = rank.compute()->rows(Band::action).front();
  const auto find = [&](Category category) {
    return std::ranges::find(row, category, [](const TimelineSpan& span) { return span.category; });
  };
  const TimelineSpan& first = *find(Category::forward);
  const double middle = static_cast<double>(first.start + first.end) / 2;
  const Finding on_forward = find_at(rank, *rank.compute(), Band::action, middle, 1000);
  CHECK(on_forward.kind == Finding::Kind::span);
  const auto words = finding_words(timeline, on_forward);
  CHECK(words[0] == "forward of microbatch 0 on stage 1");
  CHECK(words[1] == "1.00 ms");
  CHECK(words[3] == "rank 1, compute, step 0");

  const auto wait = find(Category::wait);
  REQUIRE(wait != row.end());
  const Finding on_wait = find_at(rank, *rank.compute(), Band::action,
                                  static_cast<double>(wait->start + wait->end) / 2, 1000);
  CHECK(finding_words(timeline, on_wait)[0] ==
        "idle, waiting for recv of microbatch 0 from rank 0");

  const Finding folded = find_at(rank, *rank.compute(), Band::action, middle, 20.0 * ms);
  CHECK(folded.kind == Finding::Kind::folded);
  CHECK(folded.count > 4);
}

TEST_CASE("if the cursor covers more than what it names, the words say so") {
  // A forward of 1 ms that contains a wait of 11 µs, at 7 µs per pixel: the cursor covers 21 µs.
  Timeline timeline;
  const auto add = [&](Category category, Picoseconds start, Picoseconds end) {
    TimelineSpan span{.start = start, .end = end, .step = 0};
    span.category = category;
    timeline.add(0, 0, span);
  };
  add(Category::forward, 0, ms);
  add(Category::wait, 500 * us, 511 * us);
  add(Category::backward, ms + 9 * us, 2 * ms);
  timeline.settle();
  const RankTimeline& rank = *timeline.find_rank(0);
  const auto words = [&](Picoseconds time, Picoseconds tolerance) {
    std::string all;
    for (const std::string& line : finding_words(
             timeline, find_at(rank, *rank.compute(), Band::action, static_cast<double>(time),
                               static_cast<double>(tolerance))))
      all += line + "\n";
    return all;
  };
  CHECK(words(505 * us, 10'500'000) ==
        "idle, waiting\n11.0 µs\none of 2 spans in the 21.0 µs that the cursor covers; zoom in\n"
        "500.0 µs to 511.0 µs\nrank 0, compute, step 0\n");
  // Zoomed in, the wait fills the area that the cursor covers.
  CHECK(words(505 * us, us).starts_with("idle, waiting\n11.0 µs\n500.0 µs"));
  // An action is longer than the area that the cursor covers.
  CHECK(words(300 * us, 10'500'000).starts_with("forward\n1.00 ms\n0 µs to 1.00 ms"));
  CHECK(words(ms + 4 * us, 10'500'000)
            .starts_with("idle\n9.00 µs\nbeside 2 spans in the 21.0 µs that the cursor covers; "
                         "zoom in\n"));
}

TEST_CASE("a gap in which nothing is recorded is idle, without a known reason") {
  Timeline timeline;
  for (const Picoseconds start : {0, 3})
    timeline.add(0, 0, {.start = start * us, .end = (start + 1) * us});
  timeline.settle();
  const RankTimeline& rank = *timeline.find_rank(0);
  const Finding on_gap = find_at(rank, *rank.compute(), Band::kernel, 2.0 * us, 1000);
  CHECK(on_gap.kind == Finding::Kind::idle);
  CHECK(on_gap.span.end == 3 * us);
  CHECK(finding_words(timeline, on_gap) ==
        std::vector<std::string>{"idle", "2.00 µs", "1.00 µs to 3.00 µs"});
}

TEST_CASE("a message has a bandwidth, waiting for one has none") {
  Timeline timeline;
  for (const Category category : {Category::communication, Category::wait}) {
    TimelineSpan span{.start = 0, .end = ms, .bytes = 1 << 20, .name = timeline.intern("recv")};
    span.category = category;
    timeline.add(0, category == Category::wait ? 0 : 1, span);
  }
  timeline.settle();
  const RankTimeline& rank = *timeline.find_rank(0);
  const auto words = [&](std::size_t lane) {
    std::string all;
    const Finding found = find_at(rank, *rank.lanes[lane], Band::action, 0.5 * ms, 1);
    for (const std::string& line : finding_words(timeline, found)) all += line + "\n";
    return all;
  };
  CHECK(words(1).find("1.05 MB, 1.05 GB/s\n") != std::string::npos);
  CHECK(words(0).find("1.05 MB\n") != std::string::npos);
  CHECK(words(0).find("/s") == std::string::npos);
}

TEST_CASE(
    "a collective's message is to a rank on a lane that sends, from it on one that receives") {
  Timeline timeline;
  const auto message = [&](int rank, int tid, const char* name, int peer) {
    TimelineSpan span{.start = 0, .end = ms, .bytes = 8, .name = timeline.intern(name)};
    span.category = Category::communication;
    span.peer = peer;
    infer_facts(span, name, timeline.lane(rank, tid));
    timeline.add(rank, tid, span);
  };
  for (const int rank : {0, 1}) {
    message(rank, 1, "all_reduce", 1 - rank);
    message(rank, 2, "all_reduce", 1 - rank);
    message(rank, 3, "all_reduce", 1 - rank);  // another tool's: no arrows of messages
    timeline.flow_start(static_cast<std::uint64_t>(rank + 1), rank, 1, 0);
    timeline.flow_end(static_cast<std::uint64_t>(rank + 1), 1 - rank, 2, ms);
  }
  message(0, 4, "send", 1);
  message(0, 5, "recv", 1);
  timeline.settle();
  const RankTimeline& rank = *timeline.find_rank(0);
  const auto title = [&](std::size_t lane) {
    const Finding found = find_at(rank, *rank.lanes[lane], Band::action, 0.5 * ms, 1);
    return finding_words(timeline, found).at(0);
  };
  CHECK(title(0) == "all_reduce to rank 1");
  CHECK(title(1) == "all_reduce from rank 1");
  CHECK(title(2) == "all_reduce with rank 1");
  CHECK(title(3) == "send to rank 1");
  CHECK(title(4) == "recv from rank 1");

  // With blocking sends, a rank waits for its own messages, too.
  TimelineSpan wait{.start = 0, .end = ms, .name = timeline.intern("send")};
  wait.role = MessageRole::sends;
  wait.category = Category::wait;
  wait.peer = 1;
  timeline.add(0, 0, wait);
  timeline.settle();
  CHECK(title(0) == "idle, waiting for send to rank 1");
}

TEST_CASE("an announced span that was withdrawn is no longer open") {
  Timeline timeline;
  TraceReader reader{timeline};
  const std::string args =
      R"x("cat":"wait","pid":0,"tid":0,"ts":200000,"args":{"name":"recv","start":5.0}},)x"
      "\n";
  reader.feed(R"x({"ph":"i","name":"open",)x" + args);
  timeline.settle();
  CHECK(timeline.ranks().front()->lanes.front()->open().size() == 1);
  reader.feed(R"x({"ph":"i","name":"withdrawn",)x" + args);
  CHECK(timeline.ranks().front()->lanes.front()->open().empty());
}

TEST_CASE("an announced span is found while it is open, and no longer once it has ended") {
  Timeline timeline;
  TraceReader reader{timeline, TraceReader::Form::lines};
  reader.feed(R"x({"ph":"i","name":"open","cat":"wait","pid":0,"tid":0,"ts":200000,"args":)x"
              R"x({"name":"recv","start":1000,"peer":1}},)x"
              "\n");
  timeline.settle();
  const RankTimeline& rank = *timeline.find_rank(0);
  const Finding open = find_at(rank, *rank.compute(), Band::action, 50.0 * ms, 1);
  CHECK(open.open);
  CHECK(finding_words(timeline, open)[0] == "idle, waiting for recv from rank 1 (still running)");
  reader.feed(R"x({"ph":"X","name":"recv","cat":"wait","pid":0,"tid":0,"ts":1000,"dur":300000},)x"
              "\n");
  timeline.settle();
  CHECK(rank.compute()->open().empty());
}

TEST_CASE("where spans are narrower than a pixel, the words name what the pixel covers") {
  // 300 kernels of 8 ns each, one every 10 ns.
  Timeline timeline;
  const auto name = [](int i) {
    return i < 200 ? "gemm" : i < 288 ? "add" : i < 294 ? "norm" : i < 298 ? "gelu" : "copy";
  };
  for (int i = 0; i < 300; ++i)
    timeline.add(
        0, 0, {.start = 10'000 * i, .end = 10'000 * i + 8'000, .name = timeline.intern(name(i))});
  timeline.settle();
  const RankTimeline& rank = *timeline.find_rank(0);
  const Finding found = find_at(rank, *rank.compute(), Band::kernel, 1.5e6, 1.6e6);
  CHECK(found.kind == Finding::Kind::folded);
  CHECK(finding_words(timeline, found) ==
        std::vector<std::string>{"300 spans in 3.20 µs, busy 75.0 %",
                                 "200 gemm, 88 add, 6 norm, 4 gelu and 2 others",
                                 "zoom in to see each of them"});
}
