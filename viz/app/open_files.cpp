#include "viz/app/open_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "viz/data/feed/given_runs.h"
#include "viz/data/feed/trace_input.h"
#include "viz/read/flight_recorder/stall.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t whole_file_steps = 3;  // a longer file opens at its last steps
constexpr std::size_t shown_steps = 2;

/// Reads the paths of one run.
void read_run(const std::vector<std::filesystem::path>& paths, const MemoryLimit& limit,
              Model& model) {
  const ReadReport report = read_inputs(paths, limit, model.timeline);
  model.retiming.find(paths, model.timeline.run().run);
  model.advice = find_advice(paths, model.timeline.run().run);
  Source& source = model.source;
  const auto& first = paths.front();
  source.name = first.filename().empty() ? first.parent_path().filename().string()
                                         : first.filename().string();
  if (paths.size() > 1) source.name += fmt::format(" and {} more", paths.size() - 1);
  source.malformed = report.malformed;
  source.first_malformed = report.first_malformed;
  if (report.malformed > 0) {
    fmt::print(stderr, "{} malformed lines skipped; the first: {}\n", report.malformed,
               report.first_malformed);
  }
  for (const std::string& note : model.timeline.run().notes)
    fmt::print(stderr, "{}\n", printable(note));
  if (model.timeline.empty())
    throw UsageError(first.string() + ": has no spans; give a trace file or a run's folder");
}

/// Reads flight-recorder dumps.
void open_dumps(const std::vector<std::filesystem::path>& dumps, const ViewerOptions& options,
                Model& model) {
  if (!options.exports.empty())
    throw UsageError("--export: these are flight-recorder dumps; --summary prints their contents");
  const flight::Stall stall = flight::stall_of(flight::read_job(dumps));
  model.stall.set(stall);
  const auto& given = options.paths.front();
  model.source.name = given.filename().empty() ? given.parent_path().filename().string()
                                               : given.filename().string();
  model.source.hint = fmt::format("{} of {} ranks", stall.source, stall.ranks.size());
  for (const std::string& note : stall.notes) {
    fmt::print(stderr, "{}\n", note);
    if (model.source.notice.empty()) model.source.notice = note;
  }
}

/// Returns the first and the last step of --steps.
std::pair<int, int> range_of(const std::string& steps) {
  int first = 0, last = 0;
  char rest = 0;
  const int read = std::sscanf(steps.c_str(), "%d-%d%c", &first, &last, &rest);
  if (read == 1 && steps == std::to_string(first) && first >= 0) return {first, first};
  if (read != 2 || first < 0 || last < 0)
    throw UsageError("--steps " + steps + ": give a step or a range of steps, such as 3 or 2-4");
  if (last < first)
    throw UsageError(fmt::format("--steps {0}: the range ends before it begins; give {2}-{1}",
                                 steps, first, last));
  return {first, last};
}

/// Compares the steps of --steps, or the steps that match best.
std::unique_ptr<ComparedRuns> compare(const std::string& steps, Model& a,
                                      std::unique_ptr<Model> b) {
  auto runs = std::make_unique<ComparedRuns>(a, std::move(b));
  if (steps.empty()) return runs;
  int first = 0, second = 0;
  char rest = 0;
  const int read = std::sscanf(steps.c_str(), "%d,%d%c", &first, &second, &rest);
  if (read != 2 && (read != 1 || steps != std::to_string(first)))
    throw UsageError("--steps " + steps +
                     ": of two runs, give a step, or a step of each, such as 3 or 3,7");
  runs->choose(Side::a, first);
  runs->choose(Side::b, read == 2 ? second : first);
  runs->advance(0, true);
  return runs;
}

}  // namespace

std::unique_ptr<ComparedRuns> open_files(const ViewerOptions& options, Model& model) {
  if (const auto dumps = flight::dump_files(options.paths); !dumps.empty()) {
    open_dumps(dumps, options, model);
    return nullptr;
  }
  const GivenRuns given = divide_into_runs(options.paths);
  read_run(given.a, options.memory, model);
  model.source.notice = notice_words(given);
  if (!model.source.notice.empty()) fmt::print(stderr, "{}\n", printable(model.source.notice));
  model.notes_file = notes_file(given.a.front());
  model.notes = load_notes(model.notes_file, model.timeline.run().run);
  if (!given.b.empty()) {
    auto other = std::make_unique<Model>();
    read_run(given.b, options.memory, *other);
    return compare(options.steps, model, std::move(other));
  }
  if (options.panel) {
    const auto choices = panels_for(contents_of(model.timeline)).choices;
    if (std::ranges::count(choices, *options.panel) == 0)
      throw UsageError(
          fmt::format("--panel {}: this run has {}", panel_names({*options.panel}),
                      choices.empty() ? "none of these panels" : panel_names(choices)));
  }
  const std::size_t count = model.timeline.steps().size();
  if (!options.steps.empty()) {
    const auto [first, last] = range_of(options.steps);
    const auto& steps = model.timeline.steps();
    const auto index = [&](int step) {
      return static_cast<std::size_t>(
          std::partition_point(steps.begin(), steps.end(),
                               [&](const StepWindow& each) { return each.step < step; }) -
          steps.begin());
    };
    model.viewport.fit_steps(model.timeline, index(first), index(last));
  } else if (count <= whole_file_steps) {
    model.viewport.fit(model.timeline);
  } else {
    model.viewport.fit_steps(model.timeline, count - shown_steps, count - 1);
  }
  model.viewport.advance(model.timeline, 0, true);
  return nullptr;
}

}  // namespace lockstep::viz
