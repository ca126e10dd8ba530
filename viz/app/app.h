#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "viz/app/comparison_screen.h"
#include "viz/app/lab_host.h"
#include "viz/app/options.h"
#include "viz/app/preferences.h"
#include "viz/app/screen.h"
#include "viz/app/stall_screen.h"
#include "viz/app/window.h"
#include "viz/data/feed/input_feed.h"
#include "viz/data/feed/live_feed.h"
#include "viz/data/window/frame_times.h"
#include "viz/data/window/latency.h"
#include "viz/data/window/model.h"

namespace lockstep::viz {

/// The viewer: receives events, redraws when something has changed, and otherwise sleeps.
class App {
 public:
  /// Reads the files, or starts listening. Throws UsageError on failure.
  explicit App(const ViewerOptions& options) : App(options, nullptr) {}
  /// Does the same in the window of another viewer when the user replaces its run. If this throws,
  /// the other viewer stays as it was.
  App(const ViewerOptions& options, App* before);
  ~App();

  /// Runs until the window is closed, a signal arrives, the user chooses traces to open, or the
  /// requested screenshot or run is complete. Returns the exit code.
  int run();

  /// Calls `input` before each frame of run(), and draws frames without pause, until `input`
  /// returns false. For measurements: `input` presses keys as a user would.
  void rehearse(std::function<bool(Window&)> input) { rehearsal_ = std::move(input); }
  const FrameTimes& frame_times() const { return times_; }
  const Model& model() const { return model_; }
  /// Returns the options for the traces that the user has chosen to open, once; none if the user
  /// has not.
  std::optional<ViewerOptions> take_chosen();
  /// Shows in the dialog for opening traces why the chosen ones can't be opened.
  void report(const std::string& trouble);

 private:
  void receive();
  std::chrono::microseconds parse_budget() const;
  /// Returns whether events may arrive.
  bool live() const { return options_.live() || server_; }
  /// Listens at `endpoint`, and from then on shows the runs that connect.
  void listen(const Endpoint& endpoint);
  /// Listens once the user leaves the lab without a run to show.
  void listen_if_empty();
  /// Listens on a free port, unless the viewer listens already; returns the address for a lesson.
  std::string listen_for_lesson();
  LiveFeed::Progress take_connections();
  LiveFeed::Progress take_input();
  void frame(double seconds);
  void take_keys();
  void export_wanted();
  /// Returns the run that the user works with.
  Model& leading();
  const Model& leading() const;
  std::unique_ptr<Window> open_window() const;
  void draw();
  /// Writes the notes and bookmarks if they have changed.
  void keep_notes();
  /// Draws frames that the user does not see, in which the pixel of --click is clicked.
  void click();
  bool picture_is_due() const;
  void take_picture();
  bool run_is_done() const;
  void write_stats() const;

  ViewerOptions options_;
  Preferences preferences_;
  Model model_;
  LatencyMeter latency_;
  std::unique_ptr<Window> window_;
  std::unique_ptr<LiveServer> server_;
  std::unique_ptr<LiveFeed> feed_;
  std::unique_ptr<InputFeed> input_;  ///< set if a trace is piped in; replaces server_ and feed_

  RunNotes notes_;                      ///< as saved on disk
  std::unique_ptr<ComparedRuns> runs_;  ///< set if two runs are compared; model_ is the first

  Screen screen_;
  LabHost lab_;                         ///< drawn instead if ViewState::lab is set
  StallScreen stall_screen_;            ///< drawn instead for flight-recorder dumps
  ComparisonScreen comparison_screen_;  ///< drawn instead if two runs are compared

  bool backlog_ = false;
  bool full_ = false;   ///< whether the memory limit is reached
  int frames_due_ = 0;  ///< frames to draw without new events; hovering needs a few to settle
  std::int64_t frames_ = 0;
  FrameTimes times_;  ///< recorded for --stats and for rehearsals
  std::function<bool(Window&)> rehearsal_;
  double last_frame_seconds_ = 0;
  double frame_seconds_ = 0;          ///< total time spent on frames
  double longest_frame_seconds_ = 0;  ///< including the time to receive its data
  double longest_frame_work_ = 0;     ///< of one frame, in CPU time of this thread
  double build_seconds_ = 0;          ///< part of frame_seconds_: building draw lists
  std::optional<double> screenshot_seconds_;
  int screenshot_step_ = -1;
  std::chrono::steady_clock::time_point begun_;
};

}  // namespace lockstep::viz
