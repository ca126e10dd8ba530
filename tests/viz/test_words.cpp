#include <doctest/doctest.h>

#include <limits>

#include "core/trace/reader.h"
#include "tests/support/temporary_folder.h"
#include "tests/viz/sample_run.h"
#include "viz/data/lab.h"
#include "viz/data/latency.h"
#include "viz/data/series.h"
#include "viz/data/words.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {}  // namespace

TEST_CASE("times and sizes in the unit that suits them") {
  CHECK(duration_words(3.25e9) == "3.25 ms");
  CHECK(duration_words(1.5e12) == "1.50 s");
  CHECK(duration_words(12e6) == "12.00 µs");
  CHECK(duration_words(300) == "300 ps");
  CHECK(duration_words(0) == "0 s");
  CHECK(axis_words(12.5e9, 0.5e9) == "12.5 ms");
  CHECK(axis_words(2e12, 1e12) == "2 s");
  CHECK(bytes_words(16384) == "16.4 kB");
  CHECK(bytes_words(100) == "100 B");
}

TEST_CASE("the item under the cursor, in words") {
  Timeline timeline;
  read_sample(sample_traces(sample_1f1b(4, 8, 2)), timeline);
  const RankTimeline& rank = *timeline.find_rank(1);
  const SpanRow& row = rank.compute()->rows(Band::action).front();
  const TimelineSpan& first = row.front();
  const double middle = static_cast<double>(first.start + first.end) / 2;
  const Finding on_forward = find_at(rank, *rank.compute(), Band::action, middle, 1000);
  CHECK(on_forward.kind == Finding::Kind::span);
  const auto words = finding_words(timeline, on_forward);
  CHECK(words[0] == "forward of microbatch 0 on stage 1");
  CHECK(words[1] == "1.00 ms");
  CHECK(words[3] == "rank 1, compute, step 0");

  const auto wait = std::find_if(row.begin(), row.end(), [](const TimelineSpan& span) {
    return span.category == Category::wait;
  });
  REQUIRE(wait != row.end());
  const Finding on_wait = find_at(rank, *rank.compute(), Band::action,
                                  static_cast<double>(wait->start + wait->end) / 2, 1000);
  CHECK(finding_words(timeline, on_wait)[0] ==
        "idle, waiting for gradients of microbatch 0 from rank 2");

  // Nothing is recorded between the last backward and the optimizer, so this time is idle, without
  // a known reason.
  const auto optimizer = std::find_if(row.begin(), row.end(), [](const TimelineSpan& span) {
    return span.category == Category::optimizer;
  });
  const Finding on_gap = find_at(rank, *rank.compute(), Band::action,
                                 static_cast<double>(optimizer->start) - 10 * 1000, 1000);
  CHECK(on_gap.kind == Finding::Kind::idle);
  CHECK(on_gap.span.end == optimizer->start);
  CHECK(finding_words(timeline, on_gap)[0] == "idle");

  const Finding folded = find_at(rank, *rank.compute(), Band::action, middle, 20.0 * ms);
  CHECK(folded.kind == Finding::Kind::folded);
  CHECK(folded.count > 4);
}

TEST_CASE("exposed communication is broken down, without zero parts") {
  const StepParts sum{.transfer = 8 * ms, .latency = 2 * ms};
  CHECK(exposed_words(sum, 4) == "transfer 2.00 ms, latency 500.0 µs");
  CHECK(exposed_words({.late_peer = 3 * ms}, 1) == "late peer 3.00 ms");
  CHECK(exposed_words({}, 2).empty());
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
  CHECK(words(1).find("1048.6 kB, 1048.6 MB/s\n") != std::string::npos);
  CHECK(words(0).find("1048.6 kB\n") != std::string::npos);
  CHECK(words(0).find("/s") == std::string::npos);
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

TEST_CASE("the trace, the simulator and the series agree on the bubble") {
  const SampleRun run = sample_1f1b(4, 8, 5);
  Timeline timeline;
  read_sample(sample_traces(run), timeline);
  BubbleSeries series;
  series.update(timeline, std::chrono::hours{1});
  REQUIRE(series.count() == 5);
  const double simulated = simulate(run.schedule, run.times).bubble;
  for (std::size_t i = 0; i < 5; ++i)
    CHECK(series.find(timeline, i)->bubble.share() == doctest::Approx(simulated));

  // With the original run's settings, the lab computes the same bubble.
  const LabQuestion question = question_from(timeline, 4);
  CHECK(question.size().stages() == 4);
  CHECK(question.schedule->name == "1F1B");
  CHECK(question.microbatches == 8);
  CHECK(question.boundary_bytes == 16384);
  LabQuestion same = question;
  same.cluster = run.times.cluster;
  CHECK(answer(same).simulation.bubble == doctest::Approx(simulated));
}

TEST_CASE("the lab takes the cluster from the trace or a preset, and opens no file") {
  const testing::TemporaryFolder folder;
  Cluster mine{.name = "mine", .within = {1e-3, 1e6}, .between = {2e-3, 1e6}};
  SampleRun run = sample_1f1b(4, 8, 3);
  const auto cluster_of = [&](const std::string& name, const std::string& description) {
    run.cluster = name;
    Timeline timeline;
    read_sample(sample_traces(run), timeline);
    timeline.run().cluster_description = description;
    return question_from(timeline, 2).cluster;
  };
  CHECK(cluster_of("mine", mine.json()) == mine);
  CHECK(cluster_of("classroom", "") == Cluster::load("classroom"));
  CHECK(cluster_of(folder.file("mine.json", mine.json()), "") == Cluster{});
  for (const std::string broken : {"{", "{}", R"({"name":"x","nodes":1e308})"})
    CHECK(cluster_of("mine", broken) == Cluster{});
}

TEST_CASE("the lab simulates no more than it can within a frame, and says so") {
  const auto question_of = [](int stage, int microbatch, Picoseconds duration) {
    Timeline timeline;
    for (const int s : {0, stage})
      timeline.add(0, 0,
                   {.start = 0,
                    .end = duration,
                    .step = 0,
                    .stage = s,
                    .microbatch = microbatch,
                    .category = Category::forward});
    timeline.settle();
    return question_from(timeline, 0);
  };
  const LabQuestion usual = question_of(1, 63, ms);
  CHECK(usual.microbatches == 64);
  CHECK(usual.limits.empty());
  const LabQuestion large = question_of(1, 2'000'000, ms);
  CHECK(large.microbatches == most_lab_actions / 2);
  CHECK(large.limits == "the run's 2 stages, 2000001 microbatches are too many: 2, 2048 here");
  CHECK(answer(large).schedule.microbatches == 2048);
  const int most = std::numeric_limits<int>::max();
  CHECK(question_of(most, most, ms).ranks * question_of(most, most, ms).microbatches ==
        most_lab_actions);
  const LabQuestion slow = question_of(1, 7, latest_time);
  CHECK(slow.measured.empty());
  CHECK(slow.limits.starts_with("the run's times are too long"));
}

TEST_CASE("the lab's textbook answers") {
  LabQuestion question{.schedule = find_schedule("GPipe"), .ranks = 4, .microbatches = 12};
  CHECK(answer(question).simulation.bubble == doctest::Approx(3.0 / 15));
  CHECK(answer(question).most_live == 12);
  CHECK(answer(question).formula.value() == doctest::Approx(3.0 / 15));
  question.schedule = find_schedule("1F1B");
  CHECK(answer(question).simulation.bubble == doctest::Approx(3.0 / 15));
  CHECK(answer(question).most_live == 4);
  question.schedule = find_schedule("interleaved 1F1B");
  question.chunks = 2;
  CHECK(answer(question).simulation.bubble == doctest::Approx(3.0 / 27));
  CHECK(answer(question).formula.value() == doctest::Approx(3.0 / 27));
  CHECK(answer(question).most_live == 5.5);

  // The same model, measured with another number of stages.
  question.measured.assign(
      4, {.forward = ms, .backward = 2 * ms, .backward_input = ms, .backward_weight = ms});
  CHECK(answer(question).simulation.bubble == doctest::Approx(3.0 / 27));
  for (const auto& [schedule, chunks] : lab_schedules(question)) {
    question.schedule = schedule;
    question.chunks = chunks;
    if (const auto formula = answer(question).formula)
      CHECK(answer(question).simulation.bubble == doctest::Approx(*formula));
  }
}

TEST_CASE("no memory peak is lost between pixels") {
  Timeline timeline;
  for (int i = 0; i < 10000; ++i) {
    const std::int64_t bytes = i == 4321 ? 999 : 10 + i % 7;
    timeline.sample_memory(0, {i * Picoseconds{100}, {1, 2, 3, bytes, 0}});
  }
  const RankTimeline& rank = timeline.rank(0);
  const auto columns = memory_columns(rank, {-1000, 1e6}, 50);
  CHECK(columns.front()[0] == 1);
  float highest = 0;
  for (const auto& column : columns) highest = std::max(highest, column[3]);
  CHECK(highest == 999);
  CHECK(rank.memory_peak->total() == 1005);
  CHECK(memory_columns(rank, {-1000, -500}, 3)[2] == MemoryColumn{});
}

TEST_CASE("the loss of a step is the mean over ranks that report it") {
  Timeline timeline;
  timeline.rank(0).losses = {{0, 4.0}, {1, 3.0}};
  timeline.rank(1).losses = {{0, 2.0}};
  const auto points = loss_series(timeline);
  REQUIRE(points.size() == 2);
  CHECK(points[0].loss == 3.0);
  CHECK(points[1].loss == 3.0);
}

TEST_CASE("latency runs from a span's end on its rank's clock to the frame that shows it") {
  Timeline timeline;
  timeline.run().clock = "wall";
  timeline.rank(0).clock_offset_ns = 1'000'000;
  LatencyMeter meter;
  meter.fresh() = {{0, 5 * ms}, {0, 50 * ms}, {0, 1 * ms}};
  meter.swapped(timeline, {2.0 * ms, 10.0 * ms}, 1'000'000 + 9'000'000);
  CHECK(meter.summary().count == 1);
  CHECK(meter.summary().max == doctest::Approx(4));
  CHECK(meter.summary().not_shown == 2);  // one never, one not yet
  meter.swapped(timeline, {2.0 * ms, 60.0 * ms}, 1'000'000 + 70'000'000);
  CHECK(meter.summary().count == 2);
  CHECK(meter.summary().max == doctest::Approx(20));
  CHECK(meter.summary().not_shown == 1);
}
