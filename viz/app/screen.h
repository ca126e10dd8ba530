#pragma once

#include "viz/data/window/model.h"
#include "viz/data/window/panels.h"
#include "viz/views/bubble_view.h"
#include "viz/views/buckets_view.h"
#include "viz/views/details_view.h"
#include "viz/views/experts_view.h"
#include "viz/views/export_view.h"
#include "viz/views/help_view.h"
#include "viz/views/lab_view.h"
#include "viz/views/loss_view.h"
#include "viz/views/memory_view.h"
#include "viz/views/names_view.h"
#include "viz/views/open_view.h"
#include "viz/views/plan_view.h"
#include "viz/views/retime_view.h"
#include "viz/views/rings_view.h"
#include "viz/views/shards_view.h"
#include "viz/views/stall_view.h"
#include "viz/views/status_view.h"
#include "viz/views/timeline_view.h"
#include "viz/views/toolbar_view.h"
#include "viz/views/traffic_view.h"
#include "viz/views/waits_view.h"

namespace lockstep::viz {

/// All views, and their positions in the window.
class Screen {
 public:
  void draw(Model& model, const Look& look);
  /// Returns whether keys that move the window are held down.
  bool keys_held() const { return timeline_.keys_held(); }
  /// Returns whether the picture keeps changing without new events.
  bool growing() const { return timeline_.growing(); }
  const StripLayout& lanes() const { return timeline_.lanes(); }
  const TrafficView& traffic() const { return traffic_; }
  const MemoryView& memory() const { return memory_; }
  const ExpertsView& experts() const { return experts_; }
  const BucketsView& buckets() const { return buckets_; }
  const ShardsView& shards() const { return shards_; }
  const RingsView& rings() const { return rings_; }
  const RetimeView& retime() const { return retime_; }
  const PlanView& plan() const { return plan_; }
  const StallView& stall() const { return stall_; }
  const WaitsView& waits() const { return waits_; }
  const OpenView& open() const { return open_; }
  const NamesView& names() const { return names_; }
  StripLayout& lanes() { return timeline_.lanes(); }

 private:
  static void draw_recent(const Look& look, float middle, float top, float bottom, Model& model);
  /// Draws the cards below the timeline: the panels that fit the run, and a selection.
  void draw_cards(const Painter& painter, const Rect& rect, bool column, Model& model);
  void draw_row(const Painter& painter, const Rect& row, const std::vector<Panel>& panels,
                Model& model);
  /// Draws as many cards as fit below each other; the wheel and two buttons scroll to the others.
  void draw_column(const Painter& painter, const Rect& column, const std::vector<Panel>& panels,
                   Model& model);
  /// Draws a panel, or the selection, which takes the place of the last one so that it covers no
  /// lane.
  void draw_card(const Painter& painter, const Rect& card, Panel panel, bool last, Model& model);
  void draw_selection(const Painter& painter, const Rect& card, Model& model);
  void draw_panel(Panel panel, const Painter& painter, const Rect& card, Model& model);

  StatusView status_;
  ToolbarView toolbar_;
  TimelineView timeline_;
  BubbleView bubble_;
  LossView loss_;
  MemoryView memory_;
  bool memory_shown_ = false;  ///< in this frame
  LabView lab_;
  StallView stall_;
  WaitsView waits_;
  TrafficView traffic_;
  BucketsView buckets_;
  ExpertsView experts_;
  ShardsView shards_;
  RingsView rings_;
  RetimeView retime_;
  PlanView plan_;
  std::size_t first_card_ = 0;  ///< of a column
  bool had_selection_ = false;  ///< in the last frame
  DetailsView details_;
  NamesView names_;
  HelpView help_;
  ExportView export_;
  OpenView open_;
};

}  // namespace lockstep::viz
