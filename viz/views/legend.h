#pragma once

#include <optional>
#include <string>
#include <vector>

#include "viz/data/window/model.h"
#include "viz/views/theme.h"

namespace lockstep::viz {

/// A colour of the timeline, or a cause of idle time, and its meaning.
struct LegendEntry {
  std::string heading{};  ///< of this entry and those after it, or ""
  std::string name;
  ImU32 colour = 0;
  std::optional<Hatch> hatch{};  ///< of idle time
};

/// Returns the legend of a run's timeline: kinds of work, then the causes of idle time. `axes` are
/// those of its exposed communication. With `compared`, the legend also explains the timeline of
/// that run.
std::vector<LegendEntry> legend_of(const Model& model, const std::vector<std::string>& axes,
                                   const Model* compared = nullptr);

}  // namespace lockstep::viz
