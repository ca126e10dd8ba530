#include "viz/data/lab/run_it.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/pipeline/csv.h"
#include "viz/read/timeline/reader.h"

namespace lockstep::viz {
namespace {

constexpr const char* lesson_name = "11_zero_bubble";

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file{path};
  file << text;
  if (!file.flush()) throw RunError(fmt::format("can't write {}", path.string()));
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

std::string cluster_for_run(const LabSettings& settings, std::int64_t bytes) {
  const PipelineTimes times = lab_times(settings, 1);
  const Picoseconds transfer = times.cluster.transfer(0, 1, settings.message_bytes);
  nlohmann::ordered_json link{{"latency_seconds", seconds(settings.latency)},
                              {"bandwidth", nullptr}};
  if (transfer > 0) link["bandwidth"] = static_cast<double>(bytes) / seconds(transfer);
  return nlohmann::ordered_json{{"name", "lab"},
                                {"nodes", 1},
                                {"ranks_per_node", LabRange::most_ranks},
                                {"flops", 1e12},
                                {"memory_bandwidth", nullptr},
                                {"launch_seconds", 0},
                                {"within", link},
                                {"between", link}}
             .dump(1) +
         "\n";
}

std::vector<std::string> flags_for_run(const LabResult& result,
                                       const std::filesystem::path& folder) {
  const Schedule& schedule = result.schedule;
  const StageTimes& stage = result.times.stages.front();
  const auto ns = [](Picoseconds time) {
    return fmt::format("{}.{:03}ns", time / 1000, time % 1000);
  };
  const std::pair<const char*, std::string> flags[]{
      {"--schedule", (folder / "schedule.csv").string()},
      {"--ranks", std::to_string(schedule.ranks)},
      {"--microbatches", std::to_string(schedule.microbatches)},
      {"--batch", std::to_string(schedule.microbatches)},
      {"--layers", std::to_string(schedule.stages)},
      {"--hidden", "32"},
      {"--heads", "2"},
      {"--sequence", "16"},
      {"--clip", "0"},
      {"--steps", "1"},
      {"--launch", "threads"},
      {"--clock", "modelled"},
      {"--cluster", (folder / "cluster.json").string()},
      {"--time",
       fmt::format("forward={},backward={},backward_input={},backward_weight={}", ns(stage.forward),
                   ns(stage.backward), ns(stage.backward_input), ns(stage.backward_weight))},
      {"--trace", (folder / "run").string()},
      {"--report", (folder / "report.json").string()}};
  std::vector<std::string> words;
  for (const auto& [flag, value] : flags) words.insert(words.end(), {flag, value});
  words.emplace_back("--quiet");
  return words;
}

std::string command_words(const std::string& lesson, const std::vector<std::string>& flags) {
  std::string words = "./lockstep lesson " + lesson;
  for (const std::string& flag : flags) {
    const bool plain = !flag.empty() && std::ranges::all_of(flag, [](unsigned char c) {
      return std::isalnum(c) ||
             std::string_view{"-_./=,:@%+"}.find(static_cast<char>(c)) != std::string_view::npos;
    });
    std::string quoted = flag;
    for (std::size_t at = 0; (at = quoted.find('\'', at)) != std::string::npos; at += 4)
      quoted.replace(at, 1, "'\\''");
    words += plain ? " " + flag : " '" + quoted + "'";
  }
  return words;
}

RunIt::~RunIt() {
  process_.reset();
  if (reading_.valid()) reading_.wait();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

void RunIt::fail(std::string why) {
  state_ = State::failed;
  trouble_ = std::move(why);
  seconds_ = seconds_since(begun_);
  process_.reset();
}

void RunIt::start(const LabResult& result, const LabSettings& settings,
                  std::filesystem::path folder) {
  process_.reset();
  if (reading_.valid()) reading_.wait();
  reading_ = {};
  outcome_.reset();
  trouble_.clear();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  simulated_ = result;
  settings_ = settings;
  folder_ = std::filesystem::absolute(folder);
  flags_ = flags_for_run(result, folder_);
  begun_ = std::chrono::steady_clock::now();
  try {
    const std::optional<LessonProgram> program = find_lesson(lesson_name);
    if (!program)
      throw RunError(
          "lesson 11, which runs any schedule, is not built: ./lockstep lesson 11 "
          "--help builds it");
    std::filesystem::create_directories(folder_);
    write_file(folder_ / "schedule.csv", to_csv(result.schedule));
    write_file(folder_ / "cluster.json", cluster_for_run(settings, message_bytes_of_run));
    process_ = std::make_unique<LessonProcess>(*program, flags_, folder_ / "output.txt");
    state_ = State::running;
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

void RunIt::stop() {
  if (state_ == State::running) fail("stopped");
}

RunIt::Outcome RunIt::read(const LabResult& simulated, const std::filesystem::path& folder) {
  Timeline timeline;
  read_traces({folder / "run"}, timeline);
  if (timeline.steps().empty()) throw RunError("the run's trace has no step");
  Outcome outcome;
  outcome.step = observed_step(timeline, timeline.steps().back().step, simulated.schedule,
                               simulated.simulation);
  outcome.difference = difference_of(simulated.schedule, simulated.simulation, outcome.step);
  std::ifstream file{folder / "report.json"};
  const nlohmann::json report = nlohmann::json::parse(file, nullptr, false);
  if (report.is_discarded() || !report.contains("parity"))
    throw RunError("the run's report has no parity");
  const nlohmann::json& parity = report["parity"];
  outcome.equal = true;  // else the exit code is 1
  outcome.parity = parity.value("bitwise", false)
                       ? "bitwise identical to one device"
                       : fmt::format("losses within {:.1e}, parameters within {:.1e} of one device",
                                     parity.value("max_relative_loss", 0.0),
                                     parity.value("max_relative_parameter", 0.0));
  return outcome;
}

bool RunIt::poll() {
  if (state_ != State::running) return false;
  if (!reading_.valid()) {
    const std::optional<int> code = process_->exit_code();
    if (!code) return false;
    if (*code != 0) {
      fail(fmt::format("the lesson ended with exit code {}: {}", *code,
                       last_line(process_->output_tail())));
      return true;
    }
    reading_ = std::async(std::launch::async, [this] { return read(simulated_, folder_); });
    return false;
  }
  if (reading_.wait_for(std::chrono::seconds{0}) != std::future_status::ready) return false;
  try {
    outcome_ = reading_.get();
    state_ = State::done;
    seconds_ = seconds_since(begun_);
    process_.reset();
  } catch (const std::exception& error) {
    fail(excerpt(error.what(), 400));
  }
  return true;
}

void RunIt::wait() {
  while (state_ == State::running && !poll())
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
}

double RunIt::seconds() const {
  return state_ == State::running ? seconds_since(begun_) : seconds_;
}

std::string RunIt::words() const {
  switch (state_) {
    case State::idle:
      return {};
    case State::running:
      return fmt::format("running {} on {} ranks ... {:.0f} s", simulated_.schedule.name,
                         simulated_.schedule.ranks, seconds());
    case State::failed:
      return fmt::format("{} did not run: {}", simulated_.schedule.name, trouble_);
    case State::done:
      break;
  }
  return fmt::format("observed (lower part) on {} ranks, modelled clock: {}; {}",
                     simulated_.schedule.ranks, difference_words(outcome_->difference),
                     outcome_->parity);
}

}  // namespace lockstep::viz
