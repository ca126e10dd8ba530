#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "viz/data/layout/explanations.h"
#include "viz/data/layout/folding.h"

namespace lockstep::viz {

/// The object under the cursor.
struct Finding {
  enum class Kind { nothing, span, folded, idle };
  Kind kind = Kind::nothing;
  const RankTimeline* rank = nullptr;
  const Lane* lane = nullptr;
  TimelineSpan span{};  ///< for `span`; for `idle`, only start and end are set
  double around = 0;    ///< the time that the cursor covers; 0 if it does not matter
  /// Number of spans in this time: in one row for `folded`; otherwise in all rows, without a wait
  /// that `idle` explains.
  int count = 0;
  double cover = 0;  ///< for `folded`: the share of `around` that spans other than waits cover
  /// For `folded`: the number of spans of each kind and name, largest first.
  struct Kinds {
    Category category = Category::kernel;
    NameId name = 0;
    int count = 0;
    bool operator==(const Kinds&) const = default;
  };
  std::vector<Kinds> kinds{};
  bool open = false;                 ///< whether the span is still running
  std::optional<StepPiece> piece{};  ///< for `idle` in an analysed step: what the rank does
  std::string axis{};                ///< of the piece, if it is exposed communication
};

/// Finds the object that a lane shows at `time` in `band`: its innermost span, a span that is still
/// open, or an idle gap. Spans within `tolerance` (say, one pixel) also match; more than two small
/// spans within `tolerance` count as a fold. Rows after `deepest` are not drawn at the cursor's
/// height, so they count only if no other row has a span, except for waits: a wait within an action
/// stops all of the action.
Finding find_at(const RankTimeline& rank, const Lane& lane, Band band, double time,
                double tolerance, std::size_t deepest = std::numeric_limits<std::size_t>::max());

/// Returns the lines of text that describe a finding: a title, then details.
/// Times count from `origin`.
std::vector<std::string> finding_words(const Timeline& timeline, const Finding& finding,
                                       Picoseconds origin = 0);

/// Replaces a finding on a compute lane with the piece of the rank's step at `time`, if there is
/// one and the finding is not work.
void explain_idle(Finding& finding, const ExplainedStep& step, double time);

}  // namespace lockstep::viz
