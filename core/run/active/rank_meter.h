#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/comm/transport/transport.h"
#include "core/model/parameter.h"
#include "core/run/rank/rank.h"
#include "core/run/results/rank_results.h"

namespace lockstep {

struct ActiveRun;

/// Measures one rank's phases and steps, and collects its results.
class RankMeter {
 public:
  RankMeter(ActiveRun& run, Rank& rank);

  /// Begins a phase. `predicted` must be complete (see Lesson::batches).
  void begin_phase(const Phase& phase, const Predicted& predicted);
  void begin_step(int step);
  void end_step();
  void end_phase();

  /// Records the current step's loss, or this rank's share of it (Lesson::record_loss).
  void record_loss(double loss);
  /// Records the final values of `parameters`, for the comparison with one device.
  void record_values(const std::vector<Parameter*>& parameters);

  const RankResults& results() const { return results_; }

 private:
  void begin_trace(const std::string& predicted);
  /// Ends the section of operations recorded so far; `step` is RunOperations::Section's.
  void end_section(int step);

  ActiveRun& run_;
  Rank& rank_;
  RankResults results_;
  Traffic traffic_before_;  ///< before the phase
  Picoseconds step_start_ = 0;
  std::int64_t began_ = 0;  ///< steady-clock nanoseconds at the first step
  bool traced_ = false;
};

}  // namespace lockstep
