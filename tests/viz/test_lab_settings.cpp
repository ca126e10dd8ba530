// The lab's schedules at random settings, compared with generators, a simulator and an oracle that
// the lab does not use.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "core/pipeline/csv.h"
#include "lessons/schedules/registry.h"
#include "tests/pipeline/oracle.h"
#include "tests/viz/random_lab.h"
#include "viz/data/lab/lab_table.h"

using namespace lockstep;
using namespace lockstep::viz;
using lockstep::testing::LabRandom;
using lockstep::testing::random_between;

namespace {

LabSettings random_settings(LabRandom& random) {
  LabSettings settings;
  settings.ranks = random_between(random, 2, 6);
  settings.chunks = random_between(random, 1, 3);
  settings.microbatches = random_between(random, 1, 14);
  settings.forward = random_between(random, 1'000'001, 2'000'000'000);
  settings.backward_input = random_between(random, 1'000'001, 2'000'000'000);
  settings.backward_weight = random_between(random, 1'000'001, 2'000'000'000);
  if (random_between(random, 0, 3) > 0) settings.latency = random_between(random, 0, 900'000'000);
  if (random_between(random, 0, 3) > 0) settings.bandwidth = 1e6 * random_between(random, 1, 5000);
  settings.message_bytes = random_between(random, 1, 1'000'000);
  settings.memory_limit = random_between(random, 0, 12);
  return settings;
}

/// The times of a pipeline as the lab's sliders describe it, computed without the lab.
PipelineTimes times_by_hand(const LabSettings& settings, int chunks) {
  PipelineTimes times;
  for (int stage = 0; stage < settings.ranks * chunks; ++stage)
    times.stages.push_back({settings.forward / chunks,
                            settings.backward_input / chunks + settings.backward_weight / chunks,
                            settings.backward_input / chunks, settings.backward_weight / chunks});
  times.boundary_bytes = settings.message_bytes;
  times.cluster.within = {1e-12 * static_cast<double>(settings.latency), settings.bandwidth};
  times.cluster.ranks_per_node = 1024;
  return times;
}

/// The lessons' own generators.
Schedule schedule_by_name(std::string_view name, int p, int v, int m) {
  if (name == "GPipe") return gpipe(p, m);
  if (name == "1F1B") return one_f_one_b(p, m);
  if (name == "looped breadth-first") return looped_breadth_first(p, v, m);
  if (name == "interleaved 1F1B") return interleaved_1f1b(p, v, m);
  if (name == "ZB-H1") return zb_h1(p, v, m);
  if (name == "ZB-H2") return zb_h2(p, m);
  if (name == "ZB-V") return zb_v(p, m);
  REQUIRE(name == "DualPipeV");
  return dualpipe_v(p, m);
}

/// The largest number of microbatches that are live at one time on a rank: from the start of F to
/// the end of B or W.
int most_live(const std::vector<Action>& actions, const std::vector<TimedAction>& timed) {
  std::map<std::pair<int, int>, Picoseconds> begun, ended;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const std::pair cell{actions[i].stage, actions[i].microbatch};
    if (actions[i].op == Op::forward) begun[cell] = timed[i].start;
    if (actions[i].op == Op::backward || actions[i].op == Op::backward_weight)
      ended[cell] = timed[i].end;
  }
  int most = 0;
  for (const auto& [cell, at] : begun)
    most = std::max(most, static_cast<int>(std::ranges::count_if(begun, [&](const auto& other) {
                      return other.second <= at && at < ended.at(other.first);
                    })));
  return most;
}

}  // namespace

TEST_CASE("the lab equals the simulator at 100 random settings") {
  LabRandom random{20261126};
  LabTable table;
  int simulated_rows = 0, refused = 0, over = 0;
  for (int round = 0; round < 100; ++round) {
    const LabSettings settings = random_settings(random);
    CAPTURE(round);
    table.ask(settings);
    table.wait();
    REQUIRE(table.rows().size() == known_schedules().size());
    const std::size_t solved = static_cast<std::size_t>(round) % table.rows().size();
    for (std::size_t i = 0; i < table.rows().size(); ++i) {
      const LabRow& row = table.rows()[i];
      CAPTURE(row.known->name);
      if (!row.result) {
        ++refused;
        CHECK(!row.fit.refusal.empty());
        CHECK(row.fit.refusal.find('\n') == std::string::npos);
        const bool runs =
            refusal(*row.known, {settings.ranks, settings.chunks, settings.microbatches}).empty();
        CHECK(!runs);
        continue;
      }
      ++simulated_rows;
      const LabResult& result = *row.result;
      // The schedule, generated without the registry, or for a search read back from its text.
      const Schedule schedule = row.known->searched
                                    ? schedule_from_csv(to_csv(result.schedule))
                                    : schedule_by_name(row.known->name, settings.ranks,
                                                       result.chunks, settings.microbatches);
      CHECK(result.schedule.actions == schedule.actions);
      const PipelineTimes times = times_by_hand(settings, result.chunks);
      const Simulation expected = simulate(schedule, times);
      CHECK(result.simulation.makespan == expected.makespan);
      CHECK(result.simulation.bubble == doctest::Approx(expected.bubble).epsilon(1e-12));
      double peak = 0;
      for (int rank = 0; rank < settings.ranks; ++rank) {
        const auto index = static_cast<std::size_t>(rank);
        const double live =
            1.0 * most_live(schedule.actions[index], expected.actions[index]) / result.chunks;
        CHECK(result.peaks[index] == live);
        CHECK(peak_of(result.live[index]) == live);
        CHECK(result.live[index].back().live == 0);
        const bool exceeds = settings.memory_limit > 0 && live > settings.memory_limit;
        CHECK(std::ranges::count(result.over_limit, rank) == (exceeds ? 1 : 0));
        over += exceeds;
        peak = std::max(peak, live);
      }
      CHECK(result.peak == peak);
      if (i != solved) continue;
      const auto solution = oracle::solve(schedule, times);
      REQUIRE(solution);
      for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank)
        for (std::size_t at = 0; at < schedule.actions[rank].size(); ++at) {
          CHECK(result.simulation.actions[rank][at].start == solution->actions[rank][at].start);
          CHECK(result.simulation.actions[rank][at].end == solution->actions[rank][at].end);
        }
      CHECK(result.simulation.messages.size() == solution->messages.size());
      for (const TimedMessage& each : result.simulation.messages) {
        const oracle::Message& message =
            solution->messages.at({each.stage, each.microbatch, each.forward});
        CHECK(each.start == message.start);
        CHECK(each.arrived == message.arrived);
      }
    }
  }
  CHECK(simulated_rows > 500);
  CHECK(refused > 10);
  CHECK(over > 100);
}

TEST_CASE("the lab's bubble by formula is the simulated one for equal stages and free messages") {
  LabTable table;
  LabSettings settings;
  settings.microbatches = 16;
  settings.chunks = 2;
  table.ask(settings);
  table.wait();
  int compared = 0;
  for (const LabRow& row : table.rows())
    if (row.result && row.result->formula) {
      CAPTURE(row.known->name);
      CHECK(row.result->simulation.bubble == doctest::Approx(*row.result->formula));
      ++compared;
    }
  CHECK(compared >= 8);
  CHECK(table.find("1F1B")->result->formula.value() == doctest::Approx(3.0 / 19));
  CHECK(table.find("1F1B")->result->formula_words == "(p-1)/(m+p-1)");
  CHECK(table.find("interleaved 1F1B")->result->formula.value() == doctest::Approx(3.0 / 35));
}

TEST_CASE("the lab says in one line why a schedule does not run") {
  LabTable table;
  LabSettings settings;
  settings.microbatches = 7;
  table.ask(settings);
  const LabRow* row = table.find("DualPipeV");
  CHECK(!row->result);
  CHECK(row->fit.refusal == "DualPipeV needs at least 8 microbatches on 4 ranks");
  settings.microbatches = 8;
  table.ask(settings);
  CHECK(table.find("DualPipeV")->result);
  CHECK(table.find("DualPipeV")->fit.chunks == 2);  // although the settings say 1
}

TEST_CASE("the best row keeps the memory limit") {
  LabTable table;
  LabSettings settings;
  table.ask(settings);
  table.wait();
  const LabRow* free = best_row(table.rows());
  REQUIRE(free);
  for (const LabRow& row : table.rows())
    if (row.result) CHECK(free->result->simulation.makespan <= row.result->simulation.makespan);
  settings.memory_limit = 4;
  table.ask(settings);
  table.wait();
  const LabRow* limited = best_row(table.rows());
  REQUIRE(limited);
  CHECK(limited->result->peak <= 4);
  CHECK(limited->result->simulation.makespan >= free->result->simulation.makespan);
  CHECK(peak_words(*table.find("GPipe")->result, 4) ==
        "8 live microbatches on rank 0, over the limit of 4 on 4 of 4 ranks");
  settings.memory_limit = 0;
  // A search within a limit finds schedules within it.
  settings.memory_limit = 5;
  table.ask(settings);
  table.wait();
  CHECK(table.find("automatic")->result->peak <= 5);
}

TEST_CASE("logarithmic sliders round to three digits, and have ends of their own") {
  const LogScale latency{1e5, 1e10, 0.0, {}};
  CHECK(latency.value(0) == 0);
  CHECK(latency.value(1) == 1e10);
  CHECK(latency.position(0) == 0);
  const LogScale bandwidth{1e6, 1e12, {}, std::numeric_limits<double>::infinity()};
  CHECK(bandwidth.value(1) == std::numeric_limits<double>::infinity());
  CHECK(bandwidth.position(std::numeric_limits<double>::infinity()) == 1);
  CHECK(bandwidth.value(0) == 1e6);
  for (const double value : {1.23e7, 4.56e9, 9.99e11})
    CHECK(bandwidth.value(bandwidth.position(value)) == doctest::Approx(value).epsilon(1e-9));
}

TEST_CASE("the lab takes over a run's values") {
  LabQuestion question;
  question.schedule = find_schedule("interleaved 1F1B");
  question.ranks = 4;
  question.chunks = 2;
  question.microbatches = 12;
  question.forward = 2'000'000;
  question.backward = 5'000'000;
  question.measured.assign(8, {2'000'000, 5'000'000, 3'000'000, 2'000'000});
  question.boundary_bytes = 4096;
  question.cluster.within = {1e-6, 1e9};
  const SettingsOfRun taken = settings_of(question);
  CHECK(taken.settings.ranks == 4);
  CHECK(taken.settings.chunks == 2);
  CHECK(taken.settings.microbatches == 12);
  CHECK(taken.settings.forward == 4'000'000);  // of both chunks
  CHECK(taken.settings.backward_input == 6'000'000);
  CHECK(taken.settings.backward_weight == 4'000'000);
  CHECK(taken.settings.latency == 1'000'000);
  CHECK(taken.settings.bandwidth == 1e9);
  CHECK(taken.settings.message_bytes == 4096);
  CHECK(taken.note == "the run's mean times on all stages");
  // A trace may name any numbers.
  LabQuestion hostile = question;
  hostile.boundary_bytes = std::numeric_limits<std::int64_t>::max();
  hostile.cluster.within = {1e9, 1e-9};
  hostile.ranks = hostile.microbatches = 1'000'000;
  const LabSettings bounded = settings_of(hostile).settings;
  CHECK(bounded.message_bytes == LabRange::most_bytes);
  CHECK(bounded.latency == LabRange::most_latency);
  CHECK(bounded.bandwidth == LabRange::least_bandwidth);
  const KnownSchedule& gpipe_entry = *find_schedule("GPipe");
  CHECK(
      simulated(generated(gpipe_entry, bounded, 1), bounded, 1, &gpipe_entry).simulation.makespan >
      0);
  question.ranks = 64;
  CHECK(settings_of(question).settings.ranks == LabRange::most_ranks);
  CHECK(settings_of(question).note.find("the number of ranks beyond the lab's sliders") !=
        std::string::npos);
}
