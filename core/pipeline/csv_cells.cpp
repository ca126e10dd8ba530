#include "core/pipeline/csv_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"

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

/// Removes the leading number from `rest` and returns it, if there is one that fits into an int
/// and has no more digits than such numbers need.
std::optional<int> next_number(std::string_view& rest) {
  constexpr std::ptrdiff_t most_digits = 10;
  if (rest.empty() || rest.front() < '0' || rest.front() > '9') return std::nullopt;
  int number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc{} || end - rest.data() > most_digits) return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return number;
}

/// One cell and its position in the file, for error messages. Rows and columns
/// are counted from 1.
struct Cell {
  std::size_t row = 0;
  std::uint32_t column = 0;
  std::string_view text;

  [[noreturn]] void fail(const std::string& file, const std::string& why) const {
    throw ScheduleError(
        fmt::format("{}: row {}, column {}: '{}' {}", file, row, column, excerpt(text), why));
  }
};

// Reading a file takes up to twenty times its size, so its size is limited.
constexpr std::size_t longest_csv = 4 << 20;
constexpr std::size_t most_rows = 1 << 15;

constexpr std::pair<std::string_view, CellKind> of_stages[] = {
    {"UNSHARD", CellKind::unshard},
    {"RESHARD", CellKind::reshard},
    {"REDUCE_GRAD", CellKind::reduce_gradients},
    {"WAIT_REDUCE_GRAD", CellKind::wait_reduce}};
constexpr std::pair<std::string_view, CellKind> of_messages[] = {
    {"SEND_", CellKind::send}, {"RECV_", CellKind::receive}, {"WAIT_SEND_", CellKind::wait_send}};

/// Returns the action that `text` names, or nothing for malformed text.
std::optional<CsvAction> parse_action(std::string_view text) {
  CsvAction parsed{.text = text};
  const std::optional<int> stage = next_number(text);
  if (!stage) return std::nullopt;
  parsed.action.stage = *stage;
  std::size_t length = 0;
  while (length < text.size() && (text[length] < '0' || text[length] > '9')) ++length;
  std::string_view word = text.substr(0, length);
  text.remove_prefix(length);
  const std::optional<int> microbatch = next_number(text);
  if (!text.empty()) return std::nullopt;  // something follows the number, or it is too large

  for (const auto& [name, kind] : of_stages)
    if (word == name) {
      parsed.kind = kind;
      return parsed;
    }
  if (!microbatch) return std::nullopt;
  parsed.action.microbatch = *microbatch;
  for (const auto& [prefix, kind] : of_messages)
    if (word.starts_with(prefix)) {
      word.remove_prefix(prefix.size());
      if (word != "F" && word != "B") return std::nullopt;
      parsed.kind = kind;
    }
  for (Op op : {Op::forward, Op::backward, Op::backward_input, Op::backward_weight})
    if (word.size() == 1 && word[0] == letter(op)) {
      parsed.action.op = op;
      return parsed;
    }
  return std::nullopt;
}

/// Appends a cell's actions to `row`: one action, or a joined pair such as
/// (0F7;7B3)OVERLAP_F_B.
void parse_cell(const Cell& cell, const std::string& file, std::vector<CsvAction>& row) {
  std::string_view parts = cell.text;
  constexpr std::string_view overlap_end = ")OVERLAP_F_B";
  const bool overlap = parts.starts_with('(') && parts.ends_with(overlap_end);
  if (overlap) {
    parts.remove_prefix(1);
    parts.remove_suffix(overlap_end.size());
  }
  const std::size_t first = row.size();
  for (bool more = true; more;) {
    more = overlap && parts.find(';') != std::string_view::npos;
    std::optional<CsvAction> parsed = parse_action(trimmed(more ? next_part(parts, ';') : parts));
    if (!parsed)
      cell.fail(file,
                "is not an action (a stage, one of F B I W, and a "
                "microbatch, such as 0F3)");
    parsed->column = cell.column;
    row.push_back(*parsed);
  }
  if (!overlap) return;
  if (row.size() != first + 2 || row[first].kind != CellKind::compute ||
      row[first + 1].kind != CellKind::compute)
    cell.fail(file, "does not join two computations, such as (0F7;7B3)OVERLAP_F_B");
  row[first].action.with_next = true;
}

}  // namespace

std::vector<std::vector<CsvAction>> csv_rows(std::string_view csv, const std::string& name) {
  if (csv.size() > longest_csv)
    throw ScheduleError(
        fmt::format("{}: has {} bytes, and a schedule at most {}", name, csv.size(), longest_csv));
  std::vector<std::vector<CsvAction>> rows;
  while (!csv.empty()) {
    std::string_view line = next_part(csv, '\n');
    if (rows.size() == most_rows)
      throw ScheduleError(
          fmt::format("{}: has more than {} rows, and a schedule has one for each "
                      "rank",
                      name, most_rows));
    std::vector<CsvAction>& row = rows.emplace_back();
    // An action and its separator take at least four characters.
    const auto separators =
        std::ranges::count_if(line, [](char c) { return c == ',' || c == ';'; });
    row.reserve(std::min(static_cast<std::size_t>(separators) + 1, (line.size() + 1) / 4));
    for (std::uint32_t column = 1; !line.empty(); ++column) {
      const Cell cell{rows.size(), column, trimmed(next_part(line, ','))};
      if (!cell.text.empty()) parse_cell(cell, name, row);
    }
  }
  while (!rows.empty() && rows.back().empty()) rows.pop_back();
  return rows;
}

}  // namespace lockstep
