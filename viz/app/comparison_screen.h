#pragma once

#include <array>

#include "viz/views/comparison_view.h"
#include "viz/views/details_view.h"
#include "viz/views/export_view.h"
#include "viz/views/help_view.h"
#include "viz/views/open_view.h"
#include "viz/views/status_view.h"
#include "viz/views/timeline_view.h"
#include "viz/views/toolbar_view.h"

namespace lockstep::viz {

/// The views of a comparison, and their positions in the window: two timelines, or one of them at a
/// time, and the differences below.
class ComparisonScreen {
 public:
  void draw(ComparedRuns& runs, const Look& look);
  bool keys_held() const { return timelines_[0].keys_held() || timelines_[1].keys_held(); }
  const StripLayout& lanes(Side side) const {
    return timelines_[static_cast<std::size_t>(side)].lanes();
  }

 private:
  void draw_timelines(const Painter& painter, const Rect& rect, ComparedRuns& runs);
  /// Draws the selection, or else the explanation of the differences.
  void draw_last_card(const Painter& painter, const Rect& card, ComparedRuns& runs) const;
  void choose_leader(const Painter& painter, const Rect& rect, ComparedRuns& runs) const;

  ComparisonView comparison_;
  StatusView status_;
  ToolbarView toolbar_;
  std::array<TimelineView, 2> timelines_;
  DetailsView details_;
  HelpView help_;
  ExportView export_;
  OpenView open_;
};

}  // namespace lockstep::viz
