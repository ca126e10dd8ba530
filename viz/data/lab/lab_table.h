#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "viz/data/lab/lab_settings.h"

namespace lockstep::viz {

/// A row of the lab's table: a registered schedule at the lab's settings.
struct LabRow {
  const KnownSchedule* known = nullptr;
  LabFit fit;
  std::optional<LabResult> result;  ///< set if it runs, once its search is over
  bool searching = false;           ///< if so, `result` is empty
};

/// All registered schedules at the lab's settings, in the order of the lessons. Generated schedules
/// follow the settings at once; a search runs on a thread of its own, for the newest settings only.
class LabTable {
 public:
  LabTable();
  ~LabTable();
  LabTable(const LabTable&) = delete;
  LabTable& operator=(const LabTable&) = delete;

  /// Simulates all schedules, if the settings have changed.
  void ask(const LabSettings& settings);
  /// Takes over the result of the search, if it is ready. Returns whether it was. Call it once per
  /// frame.
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

/// Returns the fastest row within the memory limit; of equally fast ones, the one that needs the
/// least memory. Null if there is none. Considers only rows with `chunks` chunks, or all rows if it
/// is 0.
const LabRow* best_row(const std::vector<LabRow>& rows, int chunks = 0);

}  // namespace lockstep::viz
