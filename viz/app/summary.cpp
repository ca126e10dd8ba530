#include "viz/app/summary.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/run/files/run_folder.h"
#include "viz/data/feed/given_runs.h"
#include "viz/data/feed/trace_input.h"
#include "viz/data/step/summary.h"
#include "viz/read/flight_recorder/trace_job.h"
#include "viz/read/flight_recorder/words.h"
#include "viz/read/report/report.h"

namespace lockstep::viz {

namespace {

/// The report that a run of Lockstep printed at its end, if its results are in the folder given.
std::string report_of(const ViewerOptions& options) {
  const std::filesystem::path& folder = options.paths.front();
  if (options.paths.size() > 1 || !std::filesystem::exists(folder / results_file)) return {};
  return read_run(folder).text(Console::detect(),
                               options.verbose ? Detail::full : Detail::summary) +
         "\n";
}

}  // namespace

std::string summary_of(const ViewerOptions& options) {
  if (const auto dumps = flight::dump_files(options.paths); !dumps.empty()) {
    if (options.json) throw UsageError("--json: the summary of flight-recorder dumps is text only");
    return flight::stall_summary(flight::stall_of(flight::read_job(dumps)));
  }
  const GivenRuns given = divide_into_runs(options.paths);
  if (!given.b.empty())
    throw UsageError("--summary covers one run, but the traces given are of two");
  Timeline timeline;
  const ReadReport report = read_inputs(given.a, options.memory, timeline);
  const std::string skipped =
      fmt::format("{} malformed event{} skipped; the first: {}", report.malformed,
                  report.malformed == 1 ? "" : "s", report.first_malformed);
  if (timeline.empty())
    throw UsageError(given.a.front().string() +
                     ": has no spans; give a trace file or a run's folder" +
                     (report.malformed > 0 ? " (" + skipped + ")" : ""));
  if (report.malformed > 0) fmt::print(stderr, "{}\n", skipped);
  const Summary summary = summarise(timeline);
  if (options.json) return summary_json(summary);
  const std::string of_run = report_of(options);
  const auto stall = flight::stall_of(timeline);
  const std::string waits = stall && !stall->empty() ? flight::stall_summary(*stall) + "\n" : "";
  return of_run + printable(waits + summary_text(summary));
}

}  // namespace lockstep::viz
