#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "viz/data/layout/alike_ranks.h"
#include "viz/data/layout/ghost.h"
#include "viz/data/layout/mesh_places.h"
#include "viz/data/layout/series.h"
#include "viz/data/layout/viewport.h"
#include "viz/data/selection/finding.h"
#include "viz/data/selection/selection_history.h"
#include "viz/data/step/advice.h"
#include "viz/data/step/retiming.h"
#include "viz/data/step/stall_of_run.h"
#include "viz/data/window/playback.h"
#include "viz/data/window/run_notes.h"
#include "viz/data/window/view_state.h"

namespace lockstep::viz {

/// The source of the timeline and its state.
struct Source {
  bool live = false;
  bool piped = false;  ///< live, from standard input
  std::string name{};  ///< the address listened on, or the files
  std::string hint{};  ///< how to start a run, shown while there is none
  int connected = 0;
  int refused = 0;
  std::int64_t malformed = 0;
  std::string first_malformed{};
  std::string notice{};  ///< a note about data that is not shown
  std::string export_folder{};
  std::vector<std::string> recent{};  ///< traces opened before
  bool offers_lab = false;            ///< whether the toolbar has a button for the lab
  bool lesson_runs = false;           ///< whether the viewer itself runs a lesson
};

/// The state that the views show. Used only by the frame loop's thread.
struct Model {
  Timeline timeline;
  Viewport viewport;
  Playback playback;
  BubbleSeries bubbles;
  Explanations explanations;
  Ghosts ghosts;
  Retiming retiming;
  Advice advice;
  StallOfRun stall;
  Source source;
  ViewState view;
  AlikeRanks alike;
  Likeness likeness;  ///< the tolerance within which ranks count as identical
  SelectionHistory history;
  RunNotes notes;
  std::filesystem::path notes_file;  ///< "" if there is no trace file to put one beside
  bool patient =
      false;  ///< whether a frame may take as long as its analyses need, as for a picture
  /// The step that panels describe, if it is analysed; valid in this frame.
  const BubbleSeries::Point* described = nullptr;
  MeshPlaces places;  ///< of the run's ranks; valid in this frame
  RunContents contents;
  PanelRow panels;  ///< those that suit the contents
  /// Returns the straggler of the described step, or null.
  const Straggler* straggler() const {
    return described && described->straggler ? &*described->straggler : nullptr;
  }
  Picoseconds origin = 0;                     ///< the time that the views show as 0
  SelectedChain chain;                        ///< of `selected`
  Finding hovered;                            ///< under the cursor in this frame
  std::optional<Picoseconds> cursor_time;     ///< the time under the cursor, if it is on a lane
  float hovered_top = 0, hovered_bottom = 0;  ///< of its row on the screen
  Finding selected;                           ///< last clicked
};

/// Clears the state that was derived from or selected in another run, whose timeline is gone, and
/// follows the new run.
void forget_run(Model& model);

/// Returns the index of the completed step that panels describe: the locked one, or else the one in
/// view, or the last one before it. Returns nothing if no step is complete.
std::optional<std::size_t> described_step(const Model& model);

/// The inputs of a panel about a step: while they stay the same, the panel keeps its analysis.
struct StepKey {
  std::string run{};
  int step = -1;  ///< -1 if no step is complete
  std::size_t ranks = 0;
  bool operator==(const StepKey&) const = default;
};
/// Returns the key of the step that panels describe.
StepKey step_key(const Model& model);

/// Follows a live run, or stops following it. Following ends a playback.
inline void follow(Model& model, bool on) {
  model.viewport.follow(on);
  if (on) model.playback.stop();
}

}  // namespace lockstep::viz
