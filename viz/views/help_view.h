#pragma once

#include <optional>
#include <string>

#include "viz/views/draw.h"

namespace lockstep::viz {

/// Shows the keys and mouse actions of a place, in the middle of the screen.
class HelpView {
 public:
  /// A screen, or a page of the lab: the page of lessons with the timeline of one (`lab_live`), or
  /// without.
  enum class Place { one_run, two_runs, lab_schedules, lab_board, lab_live, lab_lessons };
  void draw(const Painter& painter, ImVec2 size, Place place) const;
};

/// Returns those of a place, or of all places, as text, one line each, for --help.
std::string help_text(std::optional<HelpView::Place> place = std::nullopt);

}  // namespace lockstep::viz
