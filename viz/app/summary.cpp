#include "viz/app/summary.h"

#include "core/base/error.h"
#include "core/flight_recorder/stall.h"

namespace lockstep::viz {

std::string summary_of(const ViewerOptions& options) {
  if (const auto dumps = flight::dump_files(options.paths); !dumps.empty())
    return flight::stall_summary(flight::stall_of(flight::read_job(dumps)));
  throw UsageError(options.paths.empty()
                       ? "--summary: give files or folders"
                       : "--summary " + options.paths.front().string() +
                             ": has no flight-recorder dumps, such as nccl_trace_rank_0");
}

}  // namespace lockstep::viz
