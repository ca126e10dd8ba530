// The comparison of two steps, against examples worked by hand and core/trace's analysis.
#include <doctest/doctest.h>

#include "core/timeline/reader.h"
#include "core/trace/writer.h"
#include "tests/viz/sample_run.h"
#include "viz/data/comparison.h"
#include "viz/data/comparison_words.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

using Unit = ComparedValue::Unit;

void span(Timeline& timeline, int rank, int tid, Category category, Picoseconds start,
          Picoseconds end, int stage = -1, int microbatch = -1, const char* name = "",
          std::int64_t bytes = -1) {
  TimelineSpan span{.start = start, .end = end, .bytes = bytes, .step = 0};
  span.name = timeline.intern(name);
  span.category = category;
  span.stage = stage;
  span.microbatch = microbatch;
  timeline.add(rank, tid, span);
}

void action(Timeline& timeline, int rank, char op, int microbatch, Picoseconds start) {
  const bool forward = op == 'F';
  span(timeline, rank, 0, forward ? Category::forward : Category::backward, start,
       start + (forward ? 1 : 2), rank, microbatch);
}

void memory(Timeline& timeline, int rank, Picoseconds at, std::int64_t activations) {
  MemorySample held{.at = at};
  held.bytes[static_cast<std::size_t>(MemoryCategory::activations)] = activations;
  held.bytes[static_cast<std::size_t>(MemoryCategory::parameters)] = 100;
  timeline.sample_memory(rank, held);
}

/// Two stages, two microbatches, forward 1, backward 2, free messages.
void play_gpipe(Timeline& timeline) {
  for (const auto& [op, microbatch, start] :
       {std::tuple{'F', 0, 0}, {'F', 1, 1}, {'B', 0, 5}, {'B', 1, 7}})
    action(timeline, 0, op, microbatch, start);
  for (const auto& [op, microbatch, start] :
       {std::tuple{'F', 0, 1}, {'F', 1, 2}, {'B', 0, 3}, {'B', 1, 5}})
    action(timeline, 1, op, microbatch, start);
  for (int rank = 0; rank < 2; ++rank) {
    span(timeline, rank, 1, Category::communication, 1, 2, -1, -1, "send", 64);
    memory(timeline, rank, 1, 50);
    memory(timeline, rank, 3, 100);
    memory(timeline, rank, 9, 0);
  }
  timeline.settle();
}

void play_1f1b(Timeline& timeline) {
  for (const auto& [op, microbatch, start] :
       {std::tuple{'F', 0, 0}, {'F', 1, 1}, {'B', 0, 4}, {'B', 1, 7}})
    action(timeline, 0, op, microbatch, start);
  for (const auto& [op, microbatch, start] :
       {std::tuple{'F', 0, 1}, {'B', 0, 2}, {'F', 1, 4}, {'B', 1, 5}})
    action(timeline, 1, op, microbatch, start);
  span(timeline, 0, 1, Category::communication, 1, 2, -1, -1, "send", 64);
  span(timeline, 1, 1, Category::communication, 1, 2, -1, -1, "send", 96);
  memory(timeline, 0, 1, 100);
  memory(timeline, 1, 2, 50);
  timeline.settle();
}

const ComparedValue* find(const std::vector<ComparedValue>& values, const std::string& name) {
  for (const ComparedValue& value : values)
    if (value.name == name) return &value;
  return nullptr;
}

}  // namespace

TEST_CASE("two steps by hand: the same bubble, less memory, more bytes") {
  Timeline gpipe, one_f_one_b;
  play_gpipe(gpipe);
  play_1f1b(one_f_one_b);
  const StepMetrics a = step_metrics(gpipe, 0), b = step_metrics(one_f_one_b, 0);
  CHECK(a.window == Interval{0, 9});
  CHECK(b.window == Interval{0, 9});
  REQUIRE(a.ranks.size() == 2);
  // Rank 0 has idle time from 2 to 5; rank 1 from 0 to 1 and from 7 to 9.
  CHECK(a.ranks[0].idle == 3);
  CHECK(a.ranks[1].idle == 3);
  CHECK(b.ranks[0].idle == 3);
  CHECK(a.ranks[1].in_flight == 2);
  CHECK(b.ranks[1].in_flight == 1);
  CHECK(b.in_flight() == 2);
  CHECK(*a.ranks[0].memory == 200);
  CHECK(*a.ranks[0].activations == 100);
  CHECK(*b.ranks[1].memory == 150);

  const auto values = compare_steps(a, b, false);
  REQUIRE(find(values, "step time"));
  CHECK(*find(values, "step time")->difference() == 0);
  CHECK(difference_words(*find(values, "step time")) == "=");
  const ComparedValue& bubble_value = *find(values, "bubble");
  CHECK(*bubble_value.a == doctest::Approx(1.0 / 3));
  CHECK(*bubble_value.difference() == 0);
  CHECK_FALSE(bubble_value.relative());
  CHECK(*find(values, "idle per rank")->a == 3);
  const ComparedValue& sent = *find(values, "bytes sent");
  CHECK(*sent.a == 128);
  CHECK(*sent.b == 160);
  CHECK(difference_words(sent) == "+32 B");
  CHECK(relative_words(sent) == "+25.0 %");
  CHECK(relative_words({.a = 10, .b = 143}) == "×14.3");
  CHECK(relative_words({.a = 1e6, .b = 1e6 - 1}) == "-0.0 %");
  CHECK(*find(values, "microbatches in flight")->b == 2);

  const auto ranks = compare_ranks(a, b, false);
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[0].marked() == nullptr);
  REQUIRE(ranks[1].marked());  // 50 % more bytes, 25 % less memory
  CHECK(ranks[1].marked()->name == "sent");
  CHECK(relative_words(ranks[1].memory) == "-25.0 %");
  CHECK(difference_words(ranks[1].memory) == "-50 B");
  CHECK(difference_words(ranks[1].idle) == "=");
}

TEST_CASE("every number equals the analysis of core/trace") {
  Timeline one, other;
  read_sample(sample_traces(sample_gpipe(4, 8, 3)), one);
  read_sample(sample_traces(sample_1f1b(4, 6, 3)), other);
  for (const auto& [timeline, step] : {std::pair{&one, 1}, {&other, 2}}) {
    const StepMetrics metrics = step_metrics(*timeline, step);
    REQUIRE(metrics.bubble);
    CHECK(metrics.time() == bubble(*timeline, step)->window);
    CHECK(metrics.bubble->idle() == bubble(*timeline, step)->idle());
    const auto intervals = idle_intervals(*timeline, step);
    const auto in_flight = microbatches_in_flight(*timeline, step);
    Picoseconds idle = 0, causes = 0;
    IdleTimes by_cause{};
    for (std::size_t rank = 0; rank < 4; ++rank) {
      Picoseconds mine = 0;
      for (const IdleInterval& each : intervals[rank]) mine += each.time.end - each.time.start;
      CHECK(metrics.ranks[rank].idle == mine);
      const IdleTimes sums = sum_of_causes(intervals[rank]);
      for (std::size_t cause = 0; cause < sums.size(); ++cause) by_cause[cause] += sums[cause];
      int most = 0;
      for (const InFlight& each : in_flight[rank]) most = std::max(most, each.microbatches);
      CHECK(metrics.ranks[rank].in_flight == most);
      CHECK(metrics.ranks[rank].sent == bytes_sent(*timeline, *timeline->ranks()[rank], step));
      CHECK(*metrics.ranks[rank].memory ==
            memory_peak(*timeline, *timeline->ranks()[rank], step)->total());
      idle += mine;
    }
    for (const Picoseconds cause : metrics.idle) causes += cause;
    CHECK(metrics.idle == by_cause);
    CHECK(causes == idle);
    CHECK(metrics.bubble->idle() == idle);
    CHECK(metrics.path->window == metrics.window);
  }
  CHECK(step_metrics(one, 17).step == -1);
}

TEST_CASE("without a pipeline, the parts of a step are compared") {
  const auto play = [](Timeline& timeline, Picoseconds wait, Picoseconds hidden) {
    for (int rank = 0; rank < 2; ++rank) {
      span(timeline, rank, 0, Category::backward, 0, 10);
      span(timeline, rank, 1, Category::communication, 10 - hidden, 10 + wait, -1, -1, "all_reduce",
           8);
      span(timeline, rank, 0, Category::wait, 10, 10 + wait, -1, -1, "all_reduce");
      span(timeline, rank, 0, Category::optimizer, 10 + wait, 12 + wait);
    }
    timeline.settle();
  };
  Timeline plain, overlapped;
  play(plain, 8, 0);
  play(overlapped, 2, 6);
  const StepMetrics a = step_metrics(plain, 0), b = step_metrics(overlapped, 0);
  CHECK_FALSE(a.bubble);
  CHECK(a.time() == 20);
  CHECK(a.ranks[0].idle == 8);
  CHECK(b.ranks[1].idle == 2);
  const auto values = compare_steps(a, b, false);
  CHECK(find(values, "bubble") == nullptr);
  CHECK(*find(values, "compute per rank")->difference() == 0);
  CHECK(*find(values, "exposed communication")->difference() == -6);
  CHECK(find(values, "exposed communication")->part == false);
  CHECK(*find(values, "communication hidden")->difference() == 0.75);
  CHECK(*find(values, "transfer")->relative() == doctest::Approx(-0.75));
  CHECK(find(values, "transfer")->part);
  const auto findings = comparison_findings(a, b, {}, false);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].claim ==
        "A step of B takes 30.0 % less time than one of A: 14 ps instead of "
        "20 ps.");
  CHECK(findings[0].reason ==
        "Per rank: compute the same, 12 ps; exposed communication 2 ps instead of 8 ps. Compute "
        "hides 75.0 % of the communication instead of 0.0 %.");
}

TEST_CASE("the configurations' differences come from the headers") {
  const auto hello = [](Timeline& timeline, const TraceHello& from) {
    TraceReader reader{timeline};
    reader.feed(hello_line(from));
    reader.finish();
  };
  TraceHello first{.run = "a",
                   .lesson = "08 GPipe",
                   .ranks = 4,
                   .mesh = R"({"pp": 4, "dp": 1})",
                   .clock = "modelled",
                   .cluster = "classroom",
                   .cluster_description = R"({"name": "classroom", "nodes": 1})",
                   .config = R"({"layers": 8, "batch": 16, "microbatches": [4, 8]})",
                   .predicted = R"({"schedule": "GPipe", "stages": 4, "microbatches": 8})"};
  TraceHello second = first;
  second.run = "b";
  second.lesson = "09 1F1B";
  second.config = R"({"layers": 12, "batch": 16, "microbatches": [8], "learning_rate": 0.1})";
  second.predicted = R"({"schedule": "1F1B", "stages": 4, "microbatches": 8})";
  const auto compare = [&] {
    Timeline a, b;
    hello(a, first);
    hello(b, second);
    return compare_configurations(a, 0, b, 0);
  };
  const Configurations found = compare();
  CHECK(found.different == std::vector<ConfigurationEntry>{{"lesson", "08 GPipe", "09 1F1B"},
                                                           {"schedule", "GPipe", "1F1B"},
                                                           {"layers", "8", "12"},
                                                           {"learning rate", "", "0.1"}});
  CHECK(found.same == std::vector<std::string>{"stages", "microbatches", "clock", "cluster",
                                               "ranks", "mesh", "device", "launch", "batch"});
  CHECK_FALSE(found.clocks_differ);
  CHECK(found.without_model.empty());

  // A cluster of the same name may have other figures.
  second = first;
  second.cluster_description = R"({"name": "classroom", "nodes": 2})";
  REQUIRE(compare().different.size() == 1);
  CHECK(compare().different[0].name == "cluster's figures");

  second = first;
  second.clock = "wall";
  second.cluster = second.cluster_description = "";
  second.mesh = R"({"pp": 2, "dp": 2})";
  second.config = "{}";
  const Configurations clocks = compare();
  CHECK(clocks.clocks_differ);
  CHECK(clocks.without_model == "B");
  CHECK(clocks.different[0] == ConfigurationEntry{"clock", "modelled", "wall"});
  CHECK(clocks.different[1] == ConfigurationEntry{"cluster", "classroom", ""});
  CHECK(clocks.different[2] == ConfigurationEntry{"mesh", "pp 4", "pp 2 × dp 2"});
  Timeline a, b;
  hello(a, first);
  hello(b, second);
  CHECK(clock_warning(a, b) == "Times cannot be compared: A's are modelled, B's are measured.");
  CHECK(clock_warning(a, a).empty());
}

TEST_CASE("if the clocks differ, times have no difference") {
  Timeline gpipe, one_f_one_b;
  play_gpipe(gpipe);
  play_1f1b(one_f_one_b);
  const StepMetrics a = step_metrics(gpipe, 0), b = step_metrics(one_f_one_b, 0);
  for (const ComparedValue& value : compare_steps(a, b, true)) {
    CAPTURE(value.name);
    const bool timed = value.unit == Unit::time || value.unit == Unit::share;
    CHECK(value.difference().has_value() == !timed);
    CHECK((difference_words(value) == "-") == timed);
  }
  for (const ComparedRank& rank : compare_ranks(a, b, true)) {
    CHECK_FALSE(rank.idle.difference());
    CHECK(rank.memory.difference());
  }
  for (const ComparisonFinding& finding : comparison_findings(a, b, {}, true))
    CHECK(finding.claim.find("time") == std::string::npos);
}

TEST_CASE("why is 1F1B no faster than GPipe? The same bubble, and less memory") {
  const auto explain = [](double latency, double bandwidth, Picoseconds last_stage = 2 * ms) {
    SampleRun gpipe = sample_gpipe(4, 8, 3), one_f_one_b = sample_1f1b(4, 8, 3);
    gpipe.times.stages[3].backward = one_f_one_b.times.stages[3].backward = last_stage;
    gpipe.times.cluster.within = one_f_one_b.times.cluster.within = {latency, bandwidth};
    Timeline a, b;
    read_sample(sample_traces(gpipe), a);
    read_sample(sample_traces(one_f_one_b), b);
    return comparison_findings(step_metrics(a, 1), step_metrics(b, 1), compared_names(a, 1, b, 1),
                               false);
  };
  const auto free = explain(0, 1e30);
  REQUIRE(free.size() == 3);
  CHECK(free[0].claim == "B (1f1b) is no faster than A (GPipe): both steps take 33.00 ms.");
  CHECK(free[0].reason ==
        "The bubble is the same, 27.3 %: both run 24.00 ms of work per rank and leave it idle for "
        "9.00 ms. Each rank is idle for as long in B as in A: the order of the actions differs, "
        "but the time to fill and drain the pipeline is the same.");
  CHECK(free[1].claim ==
        "B (1f1b) needs 28.0 % less memory than A (GPipe): the highest peak of a "
        "rank is 2672.9 kB instead of 3714.6 kB.");
  CHECK(
      free[1].reason ==
      "At the peak, activations take 1030.0 kB instead of 2030.0 kB. The rank with the peak has at "
      "most 4 microbatches in flight instead of 8.");
  CHECK(free[2].claim == "Both send the same number of bytes, 786.4 kB.");
  // The same schedule with itself.
  Timeline run;
  read_sample(sample_traces(sample_1f1b(4, 8, 3)), run);
  const auto same = comparison_findings(step_metrics(run, 0), step_metrics(run, 1),
                                        compared_names(run, 0, run, 1), false);
  CHECK(same[0].claim == "Both steps take 35.11 ms.");
  CHECK(same[0].reason.find(" Every rank runs the same actions in the same order.") !=
        std::string::npos);
  CHECK(same[1].claim == "Peak memory is the same, 2672.9 kB.");
  // A report of no bytes is not the same as a report of some.
  StepMetrics without = step_metrics(run, 0);
  for (RankMetrics& rank : without.ranks) rank.memory = 0;
  CHECK(comparison_findings(without, step_metrics(run, 0), {}, false)[1].claim ==
        "Only B reports memory: 2672.9 kB.");
  // If one stage is slower than the others, it sets the pace of both schedules.
  CHECK(explain(0, 1e30, 4 * ms)[0].reason.ends_with(
      " Both critical paths run through stage 3 for 40.00 ms of 49.00 ms, so this stage sets the "
      "pace of both."));
  // 1F1B has more messages on its critical path, so slow messages make it slower.
  const auto slow = explain(5e-5, 2e8);
  CHECK(slow[0].claim ==
        "A step of B (1f1b) takes 3.9 % more time than one of A (GPipe): 35.11 ms instead of "
        "33.79 ms.");
  CHECK(slow[0].reason ==
        "The bubble is 31.6 % instead of 29.0 %: 11.11 ms of idle time per rank instead of 9.79 "
        "ms. The largest change is in messages: 2.11 ms per rank instead of 791.5 µs.");
}

TEST_CASE("numbers in flight are not compared if the chunks differ, but activations are") {
  Timeline plain, chunked;
  read_sample(sample_traces(sample_1f1b(4, 8, 3)), plain);
  read_sample(sample_traces(sample_interleaved(4, 2, 8, 3)), chunked);
  const StepMetrics a = step_metrics(plain, 1), b = step_metrics(chunked, 1);
  CHECK(a.chunks == 1);
  CHECK(b.chunks == 2);
  const auto values = compare_steps(a, b, false);
  CHECK(find(values, "microbatches in flight") == nullptr);
  const ComparedValue* pairs = find(values, "microbatch × chunk in flight");
  REQUIRE(pairs);
  CHECK(*pairs->a == 4);
  CHECK(*pairs->b == 11);
  CHECK_FALSE(pairs->difference());
  const auto findings = comparison_findings(a, b, {}, false);
  CHECK(findings[1].reason == "At the peak, activations take 1510.0 kB instead of 1030.0 kB.");
  // Two runs with the same number of chunks can be compared.
  CHECK(find(compare_steps(b, b, false), pairs->name)->difference() == 0);
  // Activations are no reason if something else makes up most of the difference.
  StepMetrics parameters = a;
  for (RankMetrics& rank : parameters.ranks) *rank.memory += 5'000'000;
  CHECK(comparison_findings(parameters, b, {}, false)[1].reason.empty());
}

TEST_CASE("the steps that a comparison starts with have the same size") {
  Timeline sweep, fixed;
  sweep.run().run = "sweep";
  fixed.run().run = "fixed";
  const auto step = [](Timeline& timeline, int number) {
    TimelineSpan span{.start = 10 * number, .end = 10 * number + 5, .step = number};
    span.category = Category::step;
    timeline.add(0, 0, span);
  };
  for (int i = 0; i < 6; ++i) step(sweep, i);
  for (int i = 0; i < 4; ++i) step(fixed, i);
  sweep.end(0, 6);
  fixed.end(0, 4);
  sweep.predict({.first_step = 0, .stages = 4, .microbatches = 4});
  sweep.predict({.first_step = 2, .stages = 4, .microbatches = 8});
  sweep.predict({.first_step = 4, .stages = 4, .microbatches = 16});
  sweep.settle();
  fixed.settle();
  const auto pair = [](const Timeline& a, const Timeline& b) {
    const auto found = steps_to_compare(a, b).value();
    return std::pair{found.a, found.b};
  };
  CHECK(pair(sweep, fixed) == std::pair<std::size_t, std::size_t>{5, 3});  // no such size
  fixed.predict({.first_step = 0, .stages = 4, .microbatches = 8});
  CHECK(pair(sweep, fixed) == std::pair<std::size_t, std::size_t>{3, 3});
  CHECK(pair(fixed, sweep) == std::pair<std::size_t, std::size_t>{3, 3});
  // A run with itself: the last phase with the one before, or the last two steps.
  CHECK(pair(sweep, sweep) == std::pair<std::size_t, std::size_t>{3, 5});
  CHECK(pair(fixed, fixed) == std::pair<std::size_t, std::size_t>{2, 3});
  CHECK_FALSE(steps_to_compare(Timeline{}, fixed));
}
