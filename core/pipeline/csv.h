#pragma once

#include <string>

#include "core/pipeline/schedule.h"

namespace lockstep {

/// Writes a schedule in the CSV format of PyTorch's pipelining: one row per
/// rank, one cell per action, such as `0F3`, or `(0F7;7B3)OVERLAP_F_B` for a
/// joined pair.
std::string to_csv(const Schedule& schedule);

/// Reads the format that to_csv() writes. Skips empty cells (idle time) and
/// empty rows at the end. Counts stages and microbatches, and places each stage
/// on the first rank that uses it. The schedule may still be invalid; call
/// validate().
///
/// The file may also contain the additions of PyTorch's runtime to a schedule: messages (SEND_F,
/// RECV_F, SEND_B, RECV_B, WAIT_SEND_F, WAIT_SEND_B) and actions on whole stages (UNSHARD, RESHARD,
/// REDUCE_GRAD, WAIT_REDUCE_GRAD). They are implicit in a Schedule, so they are not part of the
/// result; check_messages() checks them. Throws ScheduleError naming row, column (both counted from
/// 1) and cell.
Schedule schedule_from_csv(const std::string& csv, std::string name = "csv");

/// Checks the messages and the actions on whole stages in a CSV file, if it has
/// any; `schedule` is the file's valid schedule. Throws ScheduleError for
/// - a message that is missing, doubled, on the wrong rank, sent before its
/// data is computed, or
///   received after it is used;
/// - ranks whose receives wait for each other, or whose order differs from that
/// of the sends;
/// - a stage that is used while it is not unsharded, or whose gradients are
/// reduced before its last
///   backward pass, or not at all although other stages' are.
void check_messages(const std::string& csv, const Schedule& schedule);

}  // namespace lockstep
