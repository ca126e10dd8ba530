#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "viz/app/options.h"
#include "viz/app/window.h"
#include "viz/data/input_feed.h"
#include "viz/data/latency.h"
#include "viz/data/live_feed.h"
#include "viz/data/model.h"
#include "viz/views/bubble_view.h"
#include "viz/views/details_view.h"
#include "viz/views/lab_view.h"
#include "viz/views/loss_view.h"
#include "viz/views/memory_view.h"
#include "viz/views/status_view.h"
#include "viz/views/timeline_view.h"

namespace lockstep::viz {

/// The viewer: receives events, redraws when something has changed, and otherwise sleeps.
class App {
 public:
  /// Reads the files or starts listening. Throws UsageError if that fails.
  explicit App(const ViewerOptions& options);
  ~App();

  /// Runs until the window is closed, a signal arrives, or the requested screenshot or run is done.
  /// Returns the exit code.
  int run();

 private:
  void open_files();
  void receive();
  LiveFeed::Progress take_connections();
  LiveFeed::Progress take_input();
  void frame(double seconds);
  void draw();
  bool picture_is_due() const;
  void take_picture();
  bool run_is_done() const;
  void write_stats() const;

  ViewerOptions options_;
  Model model_;
  LatencyMeter latency_;
  std::unique_ptr<Window> window_;
  std::unique_ptr<LiveServer> server_;
  std::unique_ptr<LiveFeed> feed_;
  std::unique_ptr<InputFeed> input_;  ///< set if a trace is piped in; replaces server_ and feed_

  StatusView status_;
  TimelineView timeline_;
  BubbleView bubble_;
  LossView loss_;
  MemoryView memory_;
  LabView lab_;
  DetailsView details_;

  bool backlog_ = false;
  int frames_due_ = 0;  ///< frames to draw without new events: hovering needs a few to settle
  std::int64_t frames_ = 0;
  double frame_seconds_ = 0;  ///< total time spent on frames
  double build_seconds_ = 0;  ///< part of that spent building draw lists
  std::optional<double> screenshot_seconds_;
  int screenshot_step_ = -1;
  std::chrono::steady_clock::time_point begun_;
};

}  // namespace lockstep::viz
