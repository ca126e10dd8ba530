// The what-if simulation: it starts from the trace, and agrees with the textbook.
#include <doctest/doctest.h>

#include <limits>

#include "tests/support/temporary_folder.h"
#include "tests/viz/sample_run.h"
#include "viz/data/lab.h"
#include "viz/data/series.h"

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
