#pragma once

#include <optional>
#include <string>

#include "viz/read/report/report.h"
#include "viz/read/timeline/memory_breakdown.h"

namespace lockstep {

/// The contents of one rank's memory at the peak of a phase.
struct MemoryAtPeak {
  int rank = 0;
  int step = 0;
  MemoryBreakdown parts;
};

/// Returns nothing if there is no trace, or if the trace does not show the contents.
std::optional<MemoryAtPeak> memory_at_peak(const Report& report, std::size_t rank,
                                           const Phase& phase);

/// The contents of memory at the peak of the last phase, on the rank with the highest peak: the
/// largest kinds of tensors, with their layers. Empty without a trace.
std::string peak_table(const Report& report);

}  // namespace lockstep
