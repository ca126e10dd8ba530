#include "exercises/frame/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/pipeline/schedule.h"
#include "core/pipeline/simulator.h"

namespace lockstep::exercises {

namespace {

/// Converts times to columns.
struct Scale {
  Picoseconds begin = 0, length = 1;
  int columns = 1;
  int operator()(Picoseconds at) const {
    return static_cast<int>(((at - begin) * columns + length / 2) / length);
  }
};

/// If all times are multiples of a unit that gets a whole column or more, every unit is drawn
/// equally wide.
Scale scale_of(const std::vector<Row>& rows, int columns) {
  Picoseconds begin = 0, end = 0;
  bool first = true;
  for (const Row& row : rows)
    for (const Block& block : row.blocks) {
      begin = first ? block.start : std::min(begin, block.start);
      end = std::max(end, block.end);
      first = false;
    }
  if (end <= begin) return {};
  Picoseconds unit = end - begin;
  for (const Row& row : rows)
    for (const Block& block : row.blocks)
      unit = std::gcd(unit, std::gcd(block.start - begin, block.end - begin));
  const Picoseconds units = (end - begin) / unit;
  if (units <= columns)
    columns = static_cast<int>(units * std::min<Picoseconds>(4, columns / units));
  return {begin, end - begin, columns};
}

}  // namespace

std::string draw(const std::vector<Row>& rows, int width) {
  std::size_t longest = 0;
  for (const Row& row : rows) longest = std::max(longest, row.name.size());
  const Scale column = scale_of(rows, std::max(20, width - static_cast<int>(longest) - 2));
  std::string text;
  for (const Row& row : rows) {
    std::string line(static_cast<std::size_t>(column.columns), '.');
    for (const Block& block : row.blocks) {
      const int from = std::min(column(block.start), column.columns - 1);
      const int to = std::clamp(column(block.end), from + 1, column.columns);
      for (int at = from; at < to; ++at) {
        const auto letter = static_cast<std::size_t>(at - from);
        line[static_cast<std::size_t>(at)] =
            letter < block.label.size() ? block.label[letter] : '-';
      }
    }
    text += fmt::format("{:<{}}  {}\n", row.name, longest, line);
  }
  return text;
}

std::string draw(const Schedule& schedule, const Simulation& times, int width) {
  std::vector<Row> rows;
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
    Row row{fmt::format("rank {}", rank), {}};
    for (std::size_t i = 0; i < schedule.actions[rank].size(); ++i) {
      const Action& action = schedule.actions[rank][i];
      const TimedAction& time = times.actions[rank][i];
      row.blocks.push_back(
          {time.start, time.end, fmt::format("{}{}", letter(action.op), action.microbatch)});
    }
    rows.push_back(std::move(row));
  }
  return draw(rows, width);
}

}  // namespace lockstep::exercises
