#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "core/comm/transport/control.h"
#include "core/pipeline/executor.h"
#include "core/run/rank/rank.h"
#include "core/text/text_table.h"

namespace lockstep {

/// The schedules of a run side by side, as observed in the last step of each on the modelled clock.
/// Needs no trace, so that runs with many ranks can do without one.
class ScheduleTable {
 public:
  explicit ScheduleTable(Rank& rank) : rank_(rank) {}

  void begin_step(const Schedule& schedule) {
    if (names_.empty() || names_.back() != schedule.name) {
      names_.push_back(schedule.name);
      rows_.emplace_back();
    }
    rows_.back() = {.chunks = schedule.stages / schedule.ranks, .began = rank_.compute.now()};
  }
  /// Call this at the end of the step. `ran` are the times of this rank's actions.
  void end_step(const PipelineExecutor::Ran& ran) {
    Row& row = rows_.back();
    row.ran = ran;
    row.step = rank_.compute.now() - row.began;
    row.activations =
        rank_.memory.peak().bytes[static_cast<std::size_t>(MemoryCategory::activations)];
    row.memory = rank_.memory.peak_total();
  }

  /// Returns the table on rank 0, and nothing on the others. All ranks must call it.
  std::string text() const {
    if (!rank_.plan.modelled) return {};
    std::string mine;
    for (const Row& row : rows_)
      mine += fmt::format("{} {} {} {} {} {} {} ", row.chunks, row.step, row.ran.first,
                          row.ran.last, row.ran.busy, row.activations, row.memory);
    std::vector<std::istringstream> ranks;
    for (const std::string& each : gather_to_root(*rank_.transport, mine)) ranks.emplace_back(each);
    if (rank_.id > 0) return {};
    TableRows rows{
        {"schedule", "chunks", "step", "actions", "bubble", "peak activations", "peak memory"}};
    for (const std::string& name : names_) rows.push_back(row_of(name, ranks));
    return fmt::format(
        "\n{}  actions: from the first start to the last end, the window of the bubble; peaks: of "
        "the "
        "rank that needs most, memory of all categories together\n",
        table(rows));
  }

 private:
  struct Row {
    int chunks = 1;
    Picoseconds began = 0;
    Picoseconds step = 0;
    PipelineExecutor::Ran ran{};
    std::int64_t activations = 0;
    std::int64_t memory = 0;
  };

  /// Reads the next row of every rank, and combines them.
  static std::vector<std::string> row_of(const std::string& name,
                                         std::vector<std::istringstream>& ranks) {
    Row all;
    Picoseconds busy = 0;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      Row row;
      ranks[rank] >> row.chunks >> row.step >> row.ran.first >> row.ran.last >> row.ran.busy >>
          row.activations >> row.memory;
      if (rank == 0) all = row;
      all.step = std::max(all.step, row.step);
      all.ran.first = std::min(all.ran.first, row.ran.first);
      all.ran.last = std::max(all.ran.last, row.ran.last);
      all.activations = std::max(all.activations, row.activations);
      all.memory = std::max(all.memory, row.memory);
      busy += row.ran.busy;
    }
    const Picoseconds window = all.ran.last - all.ran.first;
    const double of_all = static_cast<double>(window) * static_cast<double>(ranks.size());
    return {name,
            std::to_string(all.chunks),
            ms(all.step) + " ms",
            ms(window) + " ms",
            percent(of_all > 0 ? 1 - static_cast<double>(busy) / of_all : 0),
            human_bytes(all.activations),
            human_bytes(all.memory)};
  }

  Rank& rank_;
  std::vector<std::string> names_;
  std::vector<Row> rows_;  ///< by schedule
};

}  // namespace lockstep
