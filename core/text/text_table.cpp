#include "core/text/text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

std::string human_bytes(std::int64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 100'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  if (bytes < 10'000'000'000) return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
  return fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9);
}

std::string ms(Picoseconds time) {
  return fmt::format("{:.3f}", seconds(time) * 1e3);
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", share * 100);
}

std::string signed_percent(double share) {
  return fmt::format("{:+.1f} %", share * 100);
}

std::string table(const TableRows& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths.resize(std::max(widths.size(), i + 1));
      widths[i] = std::max(widths[i], row[i].size());
    }
  std::string text;
  for (const auto& row : rows) {
    text += "  ";
    for (std::size_t i = 0; i < row.size(); ++i)
      text += i == 0 ? fmt::format("{:<{}}", row[i], widths[i])
                     : fmt::format("   {:>{}}", row[i], widths[i]);
    text += '\n';
  }
  return text;
}

void join_equal_rows(TableRows& rows) {
  if (rows.size() <= most_columns) return;
  TableRows joined{rows.front()};
  for (std::size_t first = 1, next = 1; first < rows.size(); first = next) {
    const auto same = [&](const std::vector<std::string>& row) {
      return std::equal(row.begin() + 1, row.end(), rows[first].begin() + 1, rows[first].end());
    };
    while (next < rows.size() && same(rows[next])) ++next;
    joined.push_back(rows[first]);
    if (next - first > 1) joined.back()[0] = fmt::format("ranks {} to {}", first - 1, next - 2);
  }
  rows = std::move(joined);
}

}  // namespace lockstep
