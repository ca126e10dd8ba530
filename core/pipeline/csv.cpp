#include "core/pipeline/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "core/base/error.h"

namespace lockstep {

namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// Returns the text before the next `separator` and removes both from `rest`.
std::string_view next_part(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

/// Removes the leading number from `rest` and returns it, if there is one.
std::optional<int> next_number(std::string_view& rest) {
  if (rest.empty() || rest.front() < '0' || rest.front() > '9') return std::nullopt;
  int number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc{}) return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return number;
}

/// One cell and its position in the file, for error messages. Rows and columns are counted from 1.
struct Cell {
  std::size_t row = 0;
  std::size_t column = 0;
  std::string_view text;

  [[noreturn]] void fail(const std::string& file, const std::string& why) const {
    throw ScheduleError(
        fmt::format("{}: row {}, column {}: '{}' {}", file, row, column, text, why));
  }
};

/// The result of parsing a cell, or a part of an overlapped cell. `action` is empty if the action
/// is implicit in a Schedule. For malformed text, parse_action returns nothing.
struct Parsed {
  std::optional<Action> action;
};
std::optional<Parsed> parse_action(std::string_view text) {
  const std::optional<int> stage = next_number(text);
  if (!stage) return std::nullopt;
  std::size_t length = 0;
  while (length < text.size() && (text[length] < '0' || text[length] > '9')) ++length;
  const std::string_view word = text.substr(0, length);
  text.remove_prefix(length);
  const std::optional<int> microbatch = next_number(text);
  if (!text.empty()) return std::nullopt;  // something follows the number, or it is too large

  for (std::string_view of_stage : {"UNSHARD", "RESHARD", "REDUCE_GRAD"})
    if (word == of_stage) return Parsed{};
  if (!microbatch) return std::nullopt;
  for (std::string_view message : {"SEND_F", "RECV_F", "SEND_B", "RECV_B"})
    if (word == message) return Parsed{};
  for (Op op : {Op::forward, Op::backward, Op::backward_input, Op::backward_weight})
    if (word.size() == 1 && word[0] == letter(op)) return Parsed{{{op, *stage, *microbatch}}};
  return std::nullopt;
}

/// Appends a cell's actions to `row`: one action, or both actions of an overlapped cell such as
/// (0F7;7B3)OVERLAP_F_B in the order in which they are written.
void parse_cell(const Cell& cell, const std::string& file, std::vector<Action>& row) {
  std::string_view parts = cell.text;
  constexpr std::string_view overlap_end = ")OVERLAP_F_B";
  const bool overlap = parts.starts_with('(') && parts.ends_with(overlap_end);
  if (overlap) {
    parts.remove_prefix(1);
    parts.remove_suffix(overlap_end.size());
  }
  for (bool more = true; more;) {
    more = overlap && parts.find(';') != std::string_view::npos;
    const std::string_view part = more ? next_part(parts, ';') : parts;
    const std::optional<Parsed> parsed = parse_action(trimmed(part));
    if (!parsed)
      cell.fail(file, "is not an action (a stage, one of F B I W, and a microbatch, such as 0F3)");
    if (parsed->action) row.push_back(*parsed->action);
  }
}

/// Counts the stages and microbatches of `schedule` and finds the rank of each stage.
void find_placement(Schedule& schedule) {
  int last_stage = -1;
  int last_microbatch = -1;
  for (const auto& row : schedule.actions)
    for (const Action& action : row) {
      last_stage = std::max(last_stage, action.stage);
      last_microbatch = std::max(last_microbatch, action.microbatch);
    }
  // Each stage has at least one action, so a stray large number cannot cause a huge allocation.
  if (static_cast<std::size_t>(last_stage + 1) > schedule.action_count())
    throw ScheduleError(fmt::format("{}: has a stage {}, but only {} actions", schedule.name,
                                    last_stage, schedule.action_count()));
  schedule.stages = last_stage + 1;
  schedule.microbatches = last_microbatch + 1;
  schedule.rank_of_stage.assign(static_cast<std::size_t>(schedule.stages), -1);
  for (int rank = 0; rank < schedule.ranks; ++rank)
    for (const Action& action : schedule.actions[static_cast<std::size_t>(rank)]) {
      int& home = schedule.rank_of_stage[static_cast<std::size_t>(action.stage)];
      if (home < 0) home = rank;
    }
  for (int stage = 0; stage < schedule.stages; ++stage)
    if (schedule.rank_of_stage[static_cast<std::size_t>(stage)] < 0)
      throw ScheduleError(fmt::format("{}: stages go up to {}, but no row has stage {}",
                                      schedule.name, last_stage, stage));
}

}  // namespace

std::string to_csv(const Schedule& schedule) {
  std::string csv;
  for (const auto& row : schedule.actions) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) csv += ',';
      csv += to_string(row[i]);
    }
    csv += '\n';
  }
  return csv;
}

Schedule schedule_from_csv(const std::string& csv, std::string name) {
  Schedule schedule;
  schedule.name = std::move(name);
  std::string_view rest = csv;
  while (!rest.empty()) {
    std::string_view line = next_part(rest, '\n');
    std::vector<Action>& row = schedule.actions.emplace_back();
    for (std::size_t column = 1; !line.empty(); ++column) {
      const Cell cell{schedule.actions.size(), column, trimmed(next_part(line, ','))};
      if (!cell.text.empty()) parse_cell(cell, schedule.name, row);
    }
  }
  while (!schedule.actions.empty() && schedule.actions.back().empty()) schedule.actions.pop_back();
  if (schedule.actions.empty())
    throw ScheduleError(schedule.name +
                        ": has no actions; it needs a row per rank, such as 0F0,0B0");
  schedule.ranks = static_cast<int>(schedule.actions.size());
  find_placement(schedule);
  return schedule;
}

}  // namespace lockstep
