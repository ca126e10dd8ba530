#pragma once

#include <algorithm>
#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "viz/data/selection/name_statistics.h"
#include "viz/data/selection/range_statistics.h"
#include "viz/data/selection/span_search.h"
#include "viz/data/window/panels.h"
#include "viz/data/window/settings.h"
#include "viz/read/timeline/pipeline_analysis.h"

namespace lockstep::viz {

/// The user's requests to the lesson that the viewer runs.
enum class LessonWish : std::uint8_t { none, stop, restart };

enum class Export : std::uint8_t { nothing, png, svg, csv };

/// Traces that the user has chosen to open.
struct OpenRequest {
  std::vector<std::string> paths{};
  bool beside = false;  ///< compared with the run shown, rather than instead of it
};

/// The controls that two compared runs share.
struct Controls {
  bool critical_path = false;
  bool ghost = false;                 ///< whether the predicted schedule is shown
  std::optional<int> expert_layer{};  ///< the layer that the panel of experts shows alone
  bool help = false;                  ///< whether the list of keys is shown
  bool searching = false;             ///< whether the search box is open
  Theme theme = Theme::dark;
  double scale = 0;                    ///< of text and everything else; 0: scale_of_window()
  bool exports = false;                ///< whether the choice of exports is shown
  Export wanted = Export::nothing;     ///< to be written after this frame
  std::string exported{};              ///< what was written last, or why it could not be
  bool opening = false;                ///< whether the dialog for opening traces is shown
  std::vector<std::string> dropped{};  ///< onto the window; the dialog asks what to do with them
  std::string open_trouble{};          ///< why the traces chosen last can't be opened
  OpenRequest open{};                  ///< to be opened after this frame
};

/// The state of the controls. Every control changes one of these, so that tests can read it.
struct ViewState : Controls {
  std::optional<Panel> panel{};  ///< the panel chosen for the last card
  std::string query{};           ///< in the search box
  SpanSearch search{};           ///< the search, parsed: spans that do not match are dimmed
  std::int64_t found = 0;        ///< number of spans that match, as last counted or counted so far
  std::string search_trouble{};  ///< what is wrong with the search, or ""
  std::optional<int> locked_step{};  ///< the step that panels describe, wherever the window is
  /// The statistics of the range selected by dragging; without ranks while the user drags it or the
  /// viewer computes them.
  std::optional<RangeStatistics> range{};
  NameStatistics names{};         ///< statistics by name of `range`
  DurationHistogram durations{};  ///< of the spans of `chosen_kind` in it
  std::optional<SpanKind> chosen_kind{};
  bool by_name = true;         ///< whether the range's card shows its names rather than its ranks
  bool names_by_rank = false;  ///< whether they are counted separately for each rank
  /// What the panel Retime is to change: a rank, and the factor by which it is faster.
  std::optional<std::pair<int, double>> wanted_pace{};
  std::optional<int> wanted_rank{};  ///< a rank that the user wants to see
  std::optional<int> marked_rank{};  ///< the last one, whose name stands out
  std::vector<Interval> marks{};     ///< a mark at one time has no length
  LessonWish lesson_wish = LessonWish::none;
  bool lab = false;            ///< whether the lab is shown instead of the run
  bool lab_takes_run = false;  ///< whether the lab is to take over the run's values

  void toggle_theme() { theme = theme == Theme::dark ? Theme::light : Theme::dark; }
  /// Adds a mark, or removes it if there is one within `near` of it.
  void mark(const Interval& time, Picoseconds near);
  void set_query(std::string_view text, const Timeline& timeline);
  /// Shows a range that is still being dragged.
  void drag_range(const Interval& time) {
    range = RangeStatistics{.range = time};
    wants_job_ = false;
    names.clear();
    chosen_kind.reset();
  }
  bool dragging() const { return range && range->ranks.empty() && !wants_job_; }
  bool computing() const { return wants_job_; }  ///< whether another thread computes the range
  /// Selects a range. If it has many spans and the timeline does not change any more (`fixed`),
  /// another thread computes the statistics, and refresh() takes them over.
  void select_range(const Timeline& timeline, const Interval& time, bool fixed);
  /// Waits for the other thread.
  void wait();
  /// Counts the matching spans again, and recomputes the range's statistics, if spans have arrived.
  /// If that takes too long to repeat in every frame, waits for the run to end.
  void refresh(const Timeline& timeline);
  /// Returns whether the next refresh() continues to count.
  bool counting() const { return searches() || counts_range(); }
  bool searches() const { return !search.empty() && !count_.complete; }

 private:
  void count(const Timeline& timeline);
  void refresh_range(const Timeline& timeline);
  bool counts_range() const {
    return job_.valid() || wants_job_ ||
           (range && by_name && (!names.complete() || (chosen_kind && !durations.complete())));
  }

  SpanSearch::Count count_{};  ///< of the search
  bool recounts_ = false;      ///< whether `found` is of an earlier, complete count
  std::int64_t counted_spans_ = 0;
  std::chrono::steady_clock::duration took_{};
  std::future<RangeStatistics> job_;  ///< of this range, or of one that was selected before
  bool wants_job_ = false;            ///< whether `range` is still to be computed
};

/// The chain of the selected action, kept until another action is selected.
struct SelectedChain {
  int rank = -1;
  int step = -1;
  Picoseconds start = 0;
  std::optional<DataChain> chain{};

  /// Returns whether an action of `step` is on the chain. Spans of other steps are not.
  bool has(int of_rank, const TimelineSpan& span) const {
    const auto is = [&](const PathLink& link) {
      return link.rank == of_rank && link.time == Interval{span.start, span.end};
    };
    return chain &&
           (is(chain->action) || std::ranges::any_of(chain->before, is) ||
            std::ranges::any_of(chain->after, is) ||
            std::ranges::any_of(chain->updates, [&](const DataChain::Update& update) {
              return update.rank == of_rank && update.time == Interval{span.start, span.end};
            }));
  }
};

}  // namespace lockstep::viz
