#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "viz/data/layout/folding.h"
#include "viz/data/layout/open_spans.h"
#include "viz/data/layout/strip_layout.h"
#include "viz/data/selection/causes.h"
#include "viz/data/window/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// How a timeline is drawn if its run is compared with another one: the compared step stands out,
/// and each rank has a note on its differences.
struct ComparedTimeline {
  bool takes_keys = true;     ///< of two timelines, only one reacts to keys
  bool has_axis = true;       ///< of two timelines, only the upper one has an axis
  Interval step;              ///< of this run
  Picoseconds other_end = 0;  ///< where the other run's step would end
  std::string other_words;    ///< a label at that time
  struct Note {
    std::string words;
    std::string brief;  ///< for a strip with room for one line only
    bool marked = false;
  };
  std::map<int, Note> notes;  ///< by rank
};

/// The main view: an overview of the whole run, a time axis, the steps, and one strip per lane,
/// with boxes for spans, hatching for idle time and arrows for messages. Handles mouse and keyboard
/// input, which help_view.cpp lists.
class TimelineView {
 public:
  /// The width of the lane names on the left, and the margin on the right.
  static constexpr float names_width = 228;
  static constexpr float right_edge = 12;
  static constexpr float axis_height = 24;

  /// Draws into the current ImGui window. Updates the model's viewport, hovered and selected.
  /// `compared` is set in a comparison, which has no overview of the run.
  void draw(const Painter& painter, const Rect& rect, Model& model,
            const ComparedTimeline* compared = nullptr);

  /// Returns whether a navigation key is down, which requires frames even without new events.
  bool keys_held() const { return keys_held_; }
  /// Returns whether a span on the screen is still running, so that it grows without new events.
  bool growing() const { return growing_; }
  const StripLayout& lanes() const { return layout_; }
  StripLayout& lanes() { return layout_; }

  /// Returns the time of a click on the steps of a comparison's timeline, once.
  std::optional<double> take_chosen_time() { return std::exchange(chosen_time_, std::nullopt); }
  /// Collapses, pins and hides the same ranks as the other timeline, and takes over its scroll
  /// position.
  void mirror(const TimelineView& other) {
    layout_.mirror(other.layout_);
    scroll_ = other.scroll_;
  }

  /// Goes to the next (1) or previous (-1) span that the search finds.
  void go_to_match(int by, Model& model);
  /// Selects a span and brings it into view. The selected range goes, unless `keeps_range`.
  void go_to(const Finding& finding, Model& model, bool keeps_range = false);
  /// Brings a rank's row into view, and marks its name.
  void go_to_rank(int rank, Model& model);
  /// Goes to what the selected object waited for (`by` = -1), or to what it led to (1).
  void go_to_cause(int by, Model& model);
  /// Goes to the place that the user came from (-1), or forward again (1).
  void go_in_history(int by, Model& model);

 private:
  /// The share of a compute strip's height that shows the predicted schedule.
  static constexpr float ghost_share = 0.34f;
  /// Which boxes of a row to draw.
  enum class Draw { all, waits, work };
  /// The geometry of a frame, and the mapping from time to pixels.
  struct Frame {
    Rect overview, axis, steps, lanes;  ///< `lanes` is right of the names
    Rect names;
    TimeWindow window;
    double pixels_per_picosecond = 0;
    float x(double time) const {
      return lanes.left + static_cast<float>((time - window.begin) * pixels_per_picosecond);
    }
    double time(float at) const {
      return window.begin + static_cast<double>(at - lanes.left) / pixels_per_picosecond;
    }
    bool shows(const StepWindow& step) const {
      return static_cast<double>(step.end) >= window.begin &&
             static_cast<double>(step.start) <= window.end;
    }
  };

  /// The object of the context menu or of the box for a note.
  struct Place {
    Finding finding;
    int rank = -1;
    std::optional<Picoseconds> time{};
  };

  Frame arrange(const Painter& painter, const Rect& rect, const Model& model) const;
  void take_input(const Painter& painter, const Rect& rect, const Frame& frame, Model& model);
  void take_drag(const Painter& painter, const Frame& frame, Model& model);
  void take_wheel(const Painter& painter, const Frame& frame, Model& model);
  void take_zoom_keys(const Frame& frame, bool inside, Model& model);
  void take_keys(const Painter& painter, const Frame& frame, bool inside, Model& model);
  void take_plain_keys(const Painter& painter, const Frame& frame, bool inside, Model& model);
  void take_row_keys(const Frame& frame, Model& model);
  void take_jump_keys(Model& model);
  void escape(Model& model);
  void click(const Painter& painter, const Frame& frame, Model& model);
  /// Shows the selected range or span with a margin, or else the whole run.
  void focus(Model& model) const;
  /// Goes to the previous (-1) or next (1) span of the selected lane, or to a span of the previous
  /// or next strip.
  void go_along(const Frame& frame, int by, Model& model);
  void go_across(const Frame& frame, int by, Model& model);
  void hover(const Frame& frame, Model& model) const;
  /// Collects the explanations of the steps that are wide enough to show them.
  void explain_steps(const Painter& painter, const Frame& frame, Model& model);

  /// Returns the interval of a step: from its first to its last pipeline action if it is explained.
  /// (A rank's step begins when its previous one ends, even if other ranks have not finished that
  /// one.)
  Interval time_of(const StepWindow& step) const;
  /// Locks the cards to the step under the cursor and selects its range, or unlocks them.
  void select_step(const Frame& frame, Model& model) const;

  void draw_overview(const Painter& painter, const Frame& frame, const Model& model);
  void draw_axis(const Painter& painter, const Frame& frame, const Model& model) const;
  void draw_step_lines(const Painter& painter, const Frame& frame, const Model& model) const;
  /// Marks the step that the cards describe.
  void draw_described(const Painter& painter, const Frame& frame, const Model& model) const;
  void draw_steps(const Painter& painter, const Frame& frame, const Model& model) const;
  void draw_names(const Painter& painter, const Frame& frame, const Model& model,
                  bool pinned) const;
  void draw_name(const Painter& painter, const Frame& frame, const Model& model,
                 const RankGroup& group) const;
  void draw_hidden(const Painter& painter, const Frame& frame) const;
  void draw_headings(const Painter& painter, const Frame& frame, const Model& model) const;
  /// The buttons and the filter above the names; submitted before the timeline's own button.
  void draw_row_controls(const Painter& painter, const Frame& frame, Model& model);
  void draw_filter(const Painter& painter, const Rect& rect, Model& model);
  void draw_row_drag(const Painter& painter, const Frame& frame) const;
  void drop_row(const Frame& frame, const Model& model);
  void lay_out(const Painter& painter, const Frame& frame, Model& model);
  void toggle_folding();
  void next_axis(const Model& model);
  /// The text and the tooltip of a rank's name.
  struct NameWords {
    std::string name, places, note;
    std::string brief;  ///< the note if there is less room
    ImU32 colour = 0;   ///< of the note
  };
  NameWords name_words(const Model& model, const RankGroup& group) const;
  void draw_name_tip(const Painter& painter, const Rect& rect, const Model& model,
                     const RankGroup& group) const;
  Place place_under_cursor(const Frame& frame, const Model& model) const;
  void draw_menu(const Painter& painter, Model& model);
  void draw_note_box(const Painter& painter, Model& model);
  void draw_notes(const Painter& painter, const Frame& frame, const Model& model) const;
  void set_bookmark(int number, Model& model) const;
  void go_to_bookmark(int number, Model& model);
  /// The buttons beside a rank's name, and the one that shows hidden ranks again.
  struct NameButtons {
    Rect pin, hide, open;  ///< `open` is empty unless the row stands for identical ranks
  };
  NameButtons name_buttons(const Painter& painter, const Frame& frame,
                           const RankGroup& group) const;
  static Rect show_all_button(const Frame& frame) {
    return {frame.names.left, frame.steps.top, frame.names.right, frame.steps.bottom};
  }
  void click_name(const Painter& painter, const Frame& frame, const Model& model);
  void draw_strip(const Painter& painter, const Frame& frame, const Model& model,
                  const Strip& strip);
  void draw_row(const Painter& painter, const Frame& frame, const Model& model, int rank,
                const SpanRow& row, const Rect& rect);
  void fold_row(const Frame& frame, const SpanRow& row, std::vector<SpanBox>& boxes);
  void draw_boxes(const Painter& painter, const Frame& frame, const Model& model, int rank,
                  const std::vector<SpanBox>& boxes, const Rect& rect, Draw which) const;
  void draw_box(const Painter& painter, const Model& model, int rank, const SpanBox& box,
                const Rect& rect, float opacity) const;
  void draw_label(const Painter& painter, const Model& model, const SpanBox& box,
                  const Rect& room) const;
  /// Returns the widest part of an action's box that no span within the action covers.
  static Rect widest_free(const Frame& frame, const SpanRow& nested, const TimelineSpan& span,
                          const Rect& rect);
  void draw_compute(const Painter& painter, const Frame& frame, const Model& model,
                    const Strip& strip, const Lane& lane, const Rect& rect);
  static Rect run_part(const Frame& frame, const Model& model, const Rect& rect);
  void fold_compute(const Painter& painter, const Frame& frame, const Strip& strip);
  void draw_idle(const Painter& painter, const Frame& frame, const Model& model, const Rect& rect);
  void draw_parts(const Painter& painter, const Frame& frame, const Rect& rect) const;
  void draw_ghosts(const Painter& painter, const Frame& frame, std::size_t rank,
                   const Rect& rect) const;
  void draw_lane(const Painter& painter, const Frame& frame, const Model& model, const Strip& strip,
                 const Lane& lane, const Rect& rect);
  void draw_open(const Painter& painter, const Frame& frame, const Model& model, const Lane& lane,
                 const Rect& rect);
  void draw_messages(const Painter& painter, const Frame& frame, const Model& model) const;
  void draw_critical_path(const Painter& painter, const Frame& frame) const;
  void draw_chain(const Painter& painter, const Frame& frame, const Model& model) const;
  /// Returns the screen rectangle of an interval on a rank's compute strip, which identical ranks
  /// may share, or nothing if the rank has no strip or the interval is outside the window.
  std::optional<Rect> place(const Frame& frame, int rank, const Interval& time) const;
  /// Scrolls just enough to show a rank.
  void scroll_to(int rank, float available);
  void select(const Finding& finding, Model& model) const;
  void draw_marks(const Painter& painter, const Frame& frame, const Model& model) const;
  void draw_playback(const Painter& painter, const Frame& frame, const Model& model) const;
  void draw_idle_outlines(const Painter& painter, const Frame& frame, const Model& model) const;
  void draw_compared(const Painter& painter, const Frame& frame) const;
  void draw_rank_marks(const Painter& painter, const Frame& frame) const;
  /// A rank's note is below its name if the strip is tall enough, and otherwise beside it.
  bool has_note_below(const Painter& painter, const Rect& strip) const;
  void draw_note(const Painter& painter, const Frame& frame, const RankGroup& group,
                 const Rect& strip) const;

  /// Converts between a y on the screen and one in the layout; pinned ranks do not scroll.
  float screen_y(const Frame& frame, float y) const;
  float layout_y(const Frame& frame, float y) const;
  /// Returns a strip's rectangle on the screen.
  Rect place(const Frame& frame, const Strip& strip) const;
  /// Returns how many of a lane's rows a strip has room for.
  static std::size_t rows_shown(const Rect& strip, Band band, std::size_t rows);
  /// Returns the part of a strip in which a row is drawn. Kernels have rows of equal height. Spans
  /// within an action, or that overlap others on their lane, cover the lower part of it.
  static Rect row_part(const Rect& strip, Band band, std::size_t row, std::size_t shown);

  StripLayout layout_;
  const ComparedTimeline* compared_ = nullptr;  ///< valid during draw()
  std::optional<double> chosen_time_;
  float scroll_ = 0;  ///< vertical, if the lanes do not all fit
  bool keys_held_ = false;
  bool growing_ = false;
  OpenSpans open_spans_;
  /// The effect of dragging, which depends on where it began.
  enum class Drag { none, overview, scrub, pan, range, row };
  Drag drag_ = Drag::none;
  double drag_from_ = 0;  ///< time
  int reveal_ = -1;       ///< the rank to scroll to in the next frame; -1: none
  int dragged_rank_ = -1;
  Place menu_;  ///< the object of the context menu
  bool opens_menu_ = false;
  Place noted_;  ///< the place of the note that is being typed
  bool opens_note_ = false;
  std::string note_text_;
  bool filters_ = false, opens_filter_ = false;  ///< whether the filter is being typed
  bool dragged_ = false;  ///< whether the mouse moved while the button was down
  /// The number of boxes that this frame may still draw. The limit matters only for a window full
  /// of overlapping spans.
  std::size_t boxes_left_ = 0;
  std::vector<const ExplainedStep*> explained_;  ///< of the steps in the window
  std::vector<const Ghost*> ghosts_;  ///< the predictions of these steps, if they are shown
  std::vector<SpanBox> boxes_;       ///< boxes of the row being drawn; a member to reuse its memory
  std::vector<IdleBox> idle_boxes_;  ///< the rank's idle time, if it is explained
  std::vector<std::pair<double, double>> opaque_;  ///< pixels of a strip that need no background
  std::vector<Rect> bare_;                         ///< parts of a strip that need a background
  std::vector<SpanBox> outer_;  ///< the boxes of the compute lane's outermost row
  /// The overview's boxes. Folding visits every span of the run, so while spans are arriving it is
  /// repeated only rarely, to limit its share of the time.
  struct Overview {
    std::vector<std::vector<SpanBox>> boxes;  ///< by rank
    TimeWindow window;                        ///< of the whole run at the time of folding
    std::int64_t spans = -1;
    float width = 0;
    std::chrono::steady_clock::time_point again_from{};
  };
  void fold_overview(const Timeline& timeline, const TimeWindow& whole, float width);
  Overview overview_;
};

}  // namespace lockstep::viz
