#pragma once

#include <string>

#include "core/pipeline/schedule.h"

namespace lockstep {

/// Writes a schedule in the CSV format of PyTorch's pipelining: one row per rank, one cell per
/// action, such as `0F3`.
std::string to_csv(const Schedule& schedule);

/// Reads the format that to_csv() writes. Skips empty cells (idle time) and actions that are
/// implicit in a Schedule: messages (SEND_F, RECV_F, SEND_B, RECV_B) and whole-stage actions
/// (UNSHARD, RESHARD, REDUCE_GRAD). Reads `(0F7;7B3)OVERLAP_F_B` as 0F7 followed by 7B3. Ignores
/// empty rows at the end. Counts stages and microbatches, and places each stage on the first rank
/// that uses it. The schedule may still be invalid; call validate(). Throws ScheduleError naming
/// row, column (both counted from 1) and cell.
Schedule schedule_from_csv(const std::string& csv, std::string name = "csv");

}  // namespace lockstep
