// Run it: schedules executed on real ranks, compared with their simulation.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "core/time/cluster_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/viz/random_lab.h"
#include "viz/data/lab/board.h"
#include "viz/data/lab/run_it.h"

using namespace lockstep;
using namespace lockstep::viz;
using lockstep::testing::LabRandom;
using lockstep::testing::random_between;
using lockstep::testing::TemporaryFolder;

namespace {

LabSettings uneven_settings(int ranks, int chunks, int microbatches) {
  LabSettings settings;
  settings.ranks = ranks;
  settings.chunks = chunks;
  settings.microbatches = microbatches;
  settings.forward = 1'234'567'891;
  settings.backward_input = 1'111'111'113;
  settings.backward_weight = 987'654'323;
  settings.latency = 123'456'789;
  settings.bandwidth = 3.21e8;
  settings.message_bytes = 77'777;
  return settings;
}

/// Runs a schedule, and checks that it ran with parity and without a difference.
void check_run(const LabResult& result, const LabSettings& settings) {
  const TemporaryFolder folder;
  RunIt run;
  CAPTURE(result.schedule.name);
  run.start(result, settings, folder / "run");
  run.wait();
  INFO(run.words());
  REQUIRE(run.state() == RunIt::State::done);
  const StepDifference& difference = run.outcome()->difference;
  CHECK(difference.largest == 0);
  CHECK(difference.where.empty());
  CHECK(difference.actions == result.schedule.action_count());
  CHECK(difference.messages == result.simulation.messages.size());
  CHECK(run.words().find("largest difference 0 ps over ") != std::string::npos);
  CHECK(run.outcome()->equal);
  // If the simulation were 1 ps off in one place, that place would be named.
  LabResult wrong = result;
  wrong.simulation.actions.back().back().end += 1;
  const StepDifference found = difference_of(wrong.schedule, wrong.simulation, run.outcome()->step);
  CHECK(found.largest == 1);
  CHECK(found.where.find("on rank") != std::string::npos);
  if (wrong.simulation.messages.empty()) return;
  wrong.simulation.messages.front().arrived += 2;
  CHECK(difference_of(wrong.schedule, wrong.simulation, run.outcome()->step).largest == 2);
}

}  // namespace

TEST_CASE("each kind of schedule runs as it is simulated, to the picosecond") {
  const LabSettings one = uneven_settings(3, 1, 6), two = uneven_settings(3, 2, 6);
  for (const char* name : {"1F1B", "ZB-H2", "interleaved 1F1B", "ZB-V", "DualPipeV"}) {
    const KnownSchedule* known = find_schedule(name);
    const LabSettings& settings = known->least_chunks == 2 ? two : one;
    check_run(simulated(generated(*known, settings, known->least_chunks), settings,
                        known->least_chunks, known),
              settings);
  }
}

TEST_CASE("schedules that a random player builds run with parity") {
  LabRandom random{12};
  for (int game = 0; game < 3; ++game) {
    const LabSettings settings = uneven_settings(
        random_between(random, 2, 3), random_between(random, 1, 2), random_between(random, 2, 4));
    Board board{settings, game == 0 ? Placement::v : Placement::loop, settings.chunks};
    while (!board.complete()) {
      std::vector<Move> legal;
      for (int rank = 0; rank < settings.ranks; ++rank)
        for (const Move& move : board.legal_moves(rank)) legal.push_back(move);
      board.play(legal[static_cast<std::size_t>(
          random_between(random, 0, static_cast<int>(legal.size()) - 1))]);
    }
    check_run(board.result(), settings);
  }
}

TEST_CASE("a run's cluster gives its messages the lab's times") {
  LabRandom random{13};
  for (int i = 0; i < 200; ++i) {
    LabSettings settings = uneven_settings(2, 1, 2);
    settings.latency = random_between(random, 0, 1'000'000'000);
    settings.bandwidth = 1e5 * random_between(random, 1, 100'000'000);
    settings.message_bytes = random_between(random, 1, 1'000'000'000);
    const Cluster lab = lab_times(settings, 1).cluster;
    const Cluster run = parse_cluster(cluster_for_run(settings, message_bytes_of_run), "test");
    CHECK(run.transfer(0, 1, message_bytes_of_run) == lab.transfer(0, 1, settings.message_bytes));
    CHECK(run.latency(0, 1, message_bytes_of_run) == settings.latency);
  }
  LabSettings free;
  const Cluster run = parse_cluster(cluster_for_run(free, message_bytes_of_run), "test");
  CHECK(run.transfer(0, 1, message_bytes_of_run) == 0);
}

TEST_CASE("a trace that differs from the schedule is not compared") {
  const LabSettings settings = uneven_settings(2, 1, 2);
  const KnownSchedule* known = find_schedule("1F1B");
  const LabResult result = simulated(generated(*known, settings, 1), settings, 1, known);
  Timeline timeline;
  CHECK_THROWS_WITH(observed_step(timeline, 0, result.schedule, result.simulation),
                    "the trace has no rank 0");
  for (int rank = 0; rank < 2; ++rank)
    for (int m = 0; m < 2; ++m)
      timeline.add(rank, 0,
                   {.start = 10 * m,
                    .end = 10 * m + 5,
                    .step = 0,
                    .stage = rank,
                    .microbatch = m,
                    .category = Category::forward});
  timeline.settle();
  CHECK_THROWS_WITH(observed_step(timeline, 0, result.schedule, result.simulation),
                    "rank 0 did not run 0B0 as action 2 of the step");
}

TEST_CASE("a run that can't start or is stopped says so, and leaves no files") {
  const TemporaryFolder folder;
  const LabSettings settings = uneven_settings(2, 1, 2);
  const KnownSchedule* known = find_schedule("1F1B");
  const LabResult result = simulated(generated(*known, settings, 1), settings, 1, known);
  {
    RunIt run;
    run.start(result, settings, std::filesystem::path{"/proc/no such folder"});
    CHECK(run.state() == RunIt::State::failed);
    CHECK(run.words().starts_with("1F1B did not run: "));
  }
  {
    RunIt run;
    run.start(result, settings, folder / "stopped");
    CHECK(run.state() == RunIt::State::running);
    CHECK(std::filesystem::exists(folder / "stopped"));
    run.stop();
    CHECK(run.state() == RunIt::State::failed);
    CHECK(run.words() == "1F1B did not run: stopped");
  }
  CHECK(!std::filesystem::exists(folder / "stopped"));
}

TEST_CASE("the command of a run can be pasted into a terminal") {
  CHECK(command_words("11", {"--schedule", "a b.csv", "--time", "forward=1.5ns"}) ==
        "./lockstep lesson 11 --schedule 'a b.csv' --time forward=1.5ns");
  CHECK(command_words("9", {"--data", "it's"}) == "./lockstep lesson 9 --data 'it'\\''s'");
}
