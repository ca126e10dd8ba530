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

/// The viewer: takes what comes, draws when something has changed, and otherwise sleeps.
class App {
 public:
  /// Reads the files, or listens. Throws UsageError.
  explicit App(const ViewerOptions& options);
  ~App();

  /// Until the window is closed, a signal comes, or what was asked for is done. Returns the exit
  /// code.
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
  std::unique_ptr<InputFeed> input_;  ///< instead of these two, where a trace is piped

  StatusView status_;
  TimelineView timeline_;
  BubbleView bubble_;
  LossView loss_;
  MemoryView memory_;
  LabView lab_;
  DetailsView details_;

  bool backlog_ = false;
  int frames_due_ = 0;  ///< to draw though nothing comes: hovering takes a frame to settle
  std::int64_t frames_ = 0;
  double frame_seconds_ = 0;  ///< spent on frames, summed
  double build_seconds_ = 0;  ///< of these, until the graphics library has the boxes
  std::optional<double> screenshot_seconds_;
  int screenshot_step_ = -1;
  std::chrono::steady_clock::time_point begun_;
};

}  // namespace lockstep::viz
