#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/pipeline/schedule.h"

namespace lockstep {

/// The kinds of actions in a CSV file. All but `compute` are implicit in a Schedule: the executor
/// sends and receives the inputs of the computations.
enum class CellKind : std::uint8_t {
  compute,
  send,
  receive,
  wait_send,
  unshard,
  reshard,
  reduce_gradients,
  wait_reduce
};

/// One action of a CSV file. For a message, `action` gives the microbatch, the direction (F or B),
/// and the stage that sends or receives; for an action on a whole stage, only the stage.
struct CsvAction {
  CellKind kind = CellKind::compute;
  Action action;
  std::uint32_t column = 0;  ///< counted from 1
  std::string_view text;     ///< as written, in the file's text
};

/// Splits a CSV file into rows (ranks) of actions, without empty cells and
/// without empty rows at the end. A joined pair becomes two actions of one
/// column. Throws ScheduleError naming row, column (both counted from 1) and
/// cell. The result refers to `csv`.
std::vector<std::vector<CsvAction>> csv_rows(std::string_view csv, const std::string& name);

}  // namespace lockstep
