#include "viz/app/summary.h"

#include <fmt/format.h>

#include <cstdio>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "viz/data/given_runs.h"
#include "viz/data/summary.h"
#include "viz/data/trace_input.h"
#include "viz/read/flight_recorder/trace_job.h"
#include "viz/read/flight_recorder/words.h"

namespace lockstep::viz {

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
  const auto stall = flight::stall_of(timeline);
  const std::string waits = stall && !stall->empty() ? flight::stall_summary(*stall) + "\n" : "";
  return printable(waits + summary_text(summary));
}

}  // namespace lockstep::viz
