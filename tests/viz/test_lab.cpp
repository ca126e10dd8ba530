// The what-if simulation starts from the trace, and agrees with the textbook.
#include <doctest/doctest.h>

#include <limits>

#include "tests/support/temporary_folder.h"
#include "tests/viz/sample_run.h"
#include "viz/data/layout/series.h"
#include "viz/data/step/lab.h"

using namespace lockstep;
using namespace lockstep::viz;

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

  // With the settings of the original run, the lab computes the same bubble.
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
  CHECK(limit_words(usual).empty());
  const LabQuestion large = question_of(1, 2'000'000, ms);
  CHECK(large.microbatches == most_lab_actions / 2);
  CHECK(limit_words(large) ==
        "simulated: 2048 of the run's 2000001 microbatches; more take too long");
  CHECK(answer(large).schedule.microbatches == 2048);
  CHECK(bubble_words(large, answer(large)) == "bubble of 2 stages, 2048 microbatches: 0.0 %");
  const LabQuestion wide = question_of(99, 7, ms);
  CHECK(limit_words(wide) == "simulated: 64 of the run's 100 stages; more take too long");
  CHECK(limit_words(question_of(99, 99, ms)) ==
        "simulated: 64 of the run's 100 stages and 64 of the run's 100 microbatches; more take too "
        "long");
  const int most = std::numeric_limits<int>::max();
  CHECK(question_of(most, most, ms).ranks * question_of(most, most, ms).microbatches ==
        most_lab_actions);
  const LabQuestion slow = question_of(1, 7, latest_time);
  CHECK(slow.measured.empty());
  CHECK(limit_words(slow).starts_with("the run's times are too long"));
}

TEST_CASE("of a run with many stages, only the microbatches that are left out are named") {
  Timeline timeline;
  for (int stage = 0; stage < 64; ++stage)
    for (const int microbatch : {0, 127})
      timeline.add(stage, 0,
                   {.start = (stage + microbatch) * ms,
                    .end = (stage + microbatch + 1) * ms,
                    .step = 0,
                    .stage = stage,
                    .microbatch = microbatch,
                    .category = Category::forward});
  timeline.settle();
  const LabQuestion question = question_from(timeline, 0);
  CHECK(question.microbatches == 64);
  CHECK(limit_words(question) == "simulated: 64 of the run's 128 microbatches; more take too long");
  // The bubble is labelled with the size to which it applies: 63 / (64 + 63).
  CHECK(bubble_words(question, answer(question)) == "bubble of 64 stages, 64 microbatches: 49.6 %");
}

TEST_CASE("the run's schedule is checked against the run's microbatches") {
  // DualPipeV requires at least two microbatches per rank.
  Timeline timeline;
  timeline.predict({.schedule = "DualPipeV"});
  for (int rank = 0; rank < 8; ++rank)
    for (const int stage : {rank, 15 - rank})
      timeline.add(rank, 0,
                   {.start = stage * ms,
                    .end = (stage + 1) * ms,
                    .step = 0,
                    .stage = stage,
                    .microbatch = 15,
                    .category = Category::forward});
  timeline.settle();
  const LabQuestion question = question_from(timeline, 0);
  CHECK(question.schedule->name == "DualPipeV");
  CHECK(question.ranks == 8);
  CHECK(question.chunks == 2);
}

TEST_CASE("the rows of a schedule are named by their stages") {
  LabQuestion question{.ranks = 4, .microbatches = 8};
  CHECK(row_words(answer(question).schedule, 3) == "stage 3");
  question.schedule = find_schedule("interleaved 1F1B");
  question.chunks = 2;
  CHECK(row_words(answer(question).schedule, 0) == "stages 0, 4");
}

TEST_CASE("the lab's verdict names what it counts") {
  LabQuestion question{.ranks = 4, .microbatches = 8};
  CHECK(bubble_words(question, answer(question)) == "bubble 27.3 %");
  CHECK(verdict_words(question, answer(question))
            .ends_with(" per microbatch; rank 0 holds up to 4 of them"));
  question.schedule = find_schedule("interleaved 1F1B");
  question.chunks = 2;
  CHECK(verdict_words(question, answer(question)).ends_with("rank 0 holds up to 5.50 of them"));
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

  // The same model, measured with a different number of stages.
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
