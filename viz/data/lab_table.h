#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "viz/data/lab_settings.h"

namespace lockstep::viz {

/// A row of the lab's table: a registered schedule at the lab's settings.
struct LabRow {
  const KnownSchedule* known = nullptr;
  LabFit fit;
  std::optional<LabResult> result;  ///< set if it runs, unless its search goes on
  bool searching = false;           ///< if so, `result` is empty
};

/// All registered schedules at the lab's settings, in the order of the lessons. Those that are
/// generated follow the settings at once; a search runs on a thread of its own, for the newest
/// settings only.
class LabTable {
 public:
  LabTable();
  ~LabTable();
  LabTable(const LabTable&) = delete;
  LabTable& operator=(const LabTable&) = delete;

  /// Simulates all schedules, if the settings have changed.
  void ask(const LabSettings& settings);
  /// Takes over the result of the search, if there is one. Returns whether there was. Call it once
  /// per frame.
  bool update();
  /// Waits for the search. For pictures and tests.
  void wait();
  bool busy() const;

  const LabSettings& settings() const { return settings_; }
  const std::vector<LabRow>& rows() const { return rows_; }
  /// Returns the row of the schedule with this name, or null.
  const LabRow* find(std::string_view name) const;

 private:
  /// Shared with the thread, which outlives this object if necessary.
  struct Search;

  LabSettings settings_;
  bool asked_ = false;
  std::vector<LabRow> rows_;
  std::shared_ptr<Search> search_;
};

/// Returns the row that takes the shortest time among those within the memory limit; of equals, the
/// one that needs the least memory. Null if there is none. Only rows with this number of chunks
/// count, or, if it is 0, all.
const LabRow* best_row(const std::vector<LabRow>& rows, int chunks = 0);

}  // namespace lockstep::viz
