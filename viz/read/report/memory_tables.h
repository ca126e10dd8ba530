#pragma once

#include <string>

#include "viz/read/report/report.h"

namespace lockstep {

/// Peak memory by phase, for the categories in which phases differ; empty if there are none.
std::string varying_memory(const Report& report);

/// Bytes sent and peak memory by rank in the last phase, predicted and observed. Below the table:
/// resident memory, and every phase's deviations from the prediction.
std::string memory_table(const Report& report);

/// Bytes sent and peak memory of the rank with the highest peak in the last phase, predicted and
/// observed; whether every rank's are as predicted; and, if not, the first deviations.
std::string predicted_lines(const Report& report);

/// The memory in use according to the GPUs, next to the ranks' allocations; empty on the CPU.
std::string gpu_table(const Report& report);

}  // namespace lockstep
