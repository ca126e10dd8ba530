#include "exercises/frame/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "core/pipeline/schedule.h"
#include "core/pipeline/simulator.h"
#include "core/text/text_row.h"
#include "core/trace/writer.h"

namespace lockstep::exercises {

namespace {

/// If all times are multiples of a unit that is at least one column wide, all units are drawn with
/// the same width.
TextScale scale_of(const std::vector<Row>& rows, int columns) {
  Picoseconds begin = 0, end = 0;
  bool first = true;
  for (const Row& row : rows)
    for (const Block& block : row.blocks) {
      begin = first ? block.start : std::min(begin, block.start);
      end = std::max(end, block.end);
      first = false;
    }
  if (end <= begin) return {begin, 1, 1, /*least=*/1};
  Picoseconds unit = end - begin;
  for (const Row& row : rows)
    for (const Block& block : row.blocks)
      unit = std::gcd(unit, std::gcd(block.start - begin, block.end - begin));
  const Picoseconds units = (end - begin) / unit;
  if (units <= columns)
    columns = static_cast<int>(units * std::min<Picoseconds>(4, columns / units));
  return {begin, end - begin, columns, /*least=*/1};
}

}  // namespace

Picture draw(const std::vector<Row>& rows, int width) {
  std::size_t longest = 0;
  for (const Row& row : rows) longest = std::max(longest, row.name.size());
  const TextScale scale = scale_of(rows, std::max(20, width - static_cast<int>(longest) - 2));
  std::string text;
  for (const Row& row : rows) {
    TextRow line{scale, /*colour=*/false};
    for (const Block& block : row.blocks) line.add(block.start, block.end, block.label);
    text += fmt::format("{:<{}}  {}\n", row.name, longest, line.text());
  }
  return {text, rows};
}

Picture draw(const Schedule& schedule, const Simulation& times, int width) {
  std::vector<Row> rows;
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
    Row row{fmt::format("rank {}", rank), {}, static_cast<int>(rank)};
    for (std::size_t i = 0; i < schedule.actions[rank].size(); ++i) {
      const Action& action = schedule.actions[rank][i];
      const TimedAction& time = times.actions[rank][i];
      row.blocks.push_back({time.start, time.end,
                            fmt::format("{}{}", letter(action.op), action.microbatch),
                            category(action.op), action.stage, action.microbatch});
    }
    rows.push_back(std::move(row));
  }
  return draw(rows, width);
}

void write_trace(const Picture& picture, const std::string& name,
                 const std::filesystem::path& folder) {
  std::map<int, Recorder> recorders;
  std::uint64_t messages = 0;
  for (const Row& row : picture.rows) {
    Recorder& trace = recorders.try_emplace(row.rank).first->second;
    const int compute = trace.add_lane("compute");
    const int lane = row.sends ? trace.add_lane("messages: send") : compute;
    for (const Block& block : row.blocks) {
      Span span{.name = trace.keep(block.label),
                .category = block.category,
                .step = 0,
                .stage = block.stage,
                .microbatch = block.microbatch};
      if (row.sends) {
        span.name = "send";
        span.category = Category::communication;
        span.peer = std::stoi(block.label);
        span.role = MessageRole::sends;
        span.message = ++messages;
      }
      trace.span(lane, span, block.start, block.end);
    }
  }
  std::string problem;
  {
    TraceWriter writer{folder, /*viewer=*/"", /*token=*/"",
                       [&](const std::string& warning) { problem = warning; }};
    for (auto& [rank, trace] : recorders)
      writer.add({.run = name,
                  .lesson = name,
                  .rank = rank,
                  .ranks = static_cast<int>(recorders.size()),
                  .clock = "modelled"},
                 trace);
  }
  if (!problem.empty()) throw std::runtime_error{problem};
}

}  // namespace lockstep::exercises
