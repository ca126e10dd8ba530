#include "viz/app/open_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "core/base/error.h"
#include "core/trace/reader.h"
#include "viz/data/first_run.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t whole_file_steps = 3;  // a longer file opens at its last steps
constexpr std::size_t shown_steps = 2;

}  // namespace

void open_files(const ViewerOptions& options, Model& model) {
  const FirstRun chosen = first_run_of(options.paths);
  const ReadReport report = read_traces(chosen.paths, model.timeline);
  Source& source = model.source;
  source.notice = notice_words(chosen);
  if (!source.notice.empty()) fmt::print(stderr, "{}\n", source.notice);
  source.name = options.paths.front().filename().empty()
                    ? options.paths.front().parent_path().filename().string()
                    : options.paths.front().filename().string();
  if (chosen.paths.size() > 1) source.name += fmt::format(" and {} more", chosen.paths.size() - 1);
  source.malformed = report.malformed;
  source.first_malformed = report.first_malformed;
  if (report.malformed > 0) {
    fmt::print(stderr, "{} malformed lines skipped; the first: {}\n", report.malformed,
               report.first_malformed);
  }
  if (model.timeline.empty()) {
    throw UsageError(options.paths.front().string() +
                     ": has no spans; give a trace file or a run's folder");
  }
  const std::size_t count = model.timeline.steps().size();
  int first = 0, last = 0;
  if (const int read = std::sscanf(options.steps.c_str(), "%d-%d", &first, &last); read > 0) {
    const auto& steps = model.timeline.steps();
    const auto index = [&](int step) {
      return static_cast<std::size_t>(
          std::partition_point(steps.begin(), steps.end(),
                               [&](const StepWindow& each) { return each.step < step; }) -
          steps.begin());
    };
    model.viewport.fit_steps(model.timeline, index(first), index(read > 1 ? last : first));
  } else if (!options.steps.empty()) {
    throw UsageError("--steps " + options.steps +
                     ": give a step or a range of steps, such as 3 or 2-4");
  } else if (count <= whole_file_steps) {
    model.viewport.fit(model.timeline);
  } else {
    model.viewport.fit_steps(model.timeline, count - shown_steps, count - 1);
  }
  model.viewport.advance(model.timeline, 0, true);
}

}  // namespace lockstep::viz
