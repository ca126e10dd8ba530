#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/run/options/options.h"
#include "core/run/report/bubble_parts.h"
#include "core/run/report/console.h"
#include "core/run/report/observed_overlap.h"
#include "core/run/report/parity.h"
#include "core/run/report/results.h"
#include "core/trace/timeline.h"

namespace lockstep {

/// Everything that is told at the end of a run, in a terminal and as JSON.
struct Report {
  const Options& options;
  std::string lesson;
  std::vector<RankRecord> ranks;  ///< by rank
  std::vector<double> losses;     ///< by step
  std::optional<Parity> parity;
  /// Where that is further than rounding usually comes: whether one device has the same bits when
  /// it adds in this run's order.
  std::optional<bool> same_in_order{};
  DType reference_dtype = DType::f32;  ///< what one device trained in
  std::vector<double> reference_losses;
  std::string sample;                        ///< what the model says now
  Timeline timeline;                         ///< empty without a trace
  std::vector<ObservedBubble> bubbles{};     ///< by phase
  std::vector<ObservedOverlap> overlaps{};   ///< by phase
  std::map<std::string, std::string> own{};  ///< what the lesson adds to json(), as JSON by name
  bool uncomputed = false;  ///< a training run of the meta device: it has no losses

  /// Measures the timeline, once it has been read.
  void look_at_timeline();

  std::vector<Phase> phases() const;
  double step_seconds() const;
  /// The phase's last step by the run's clock, on the rank that took longest.
  Picoseconds step_time(std::size_t phase) const;

  std::string text(const Console& console) const;
  std::string json() const;
};

}  // namespace lockstep
