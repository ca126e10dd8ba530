#pragma once

#include <optional>
#include <vector>

#include "viz/data/layout/viewport.h"
#include "viz/read/timeline/step_account.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep::viz {

/// A drawable part of a row: the whole pixel columns of one span, or columns that spans cover only
/// in part.
struct SpanBox {
  double left = 0;  ///< pixels from the start of the window
  double right = 0;
  double cover = 1;    ///< fraction of the box that its spans cover
  double opacity = 1;  ///< the same, or, for waits, the fraction of the time in which nothing works
  /// The span that the box shows or, for a partial column at the end of a wide span, the span that
  /// covers most of it. Empty for a fold of small spans.
  std::optional<TimelineSpan> span{};
  Category category = Category::kernel;  ///< for a fold: the category that covers most of it
  int count = 1;                         ///< number of spans in it
  bool whole = false;                    ///< whether it shows a span's whole pixel columns
  double width() const { return right - left; }
};

/// Spans narrower than this many pixels are folded.
constexpr double fold_below = 3;

/// Computes the boxes of a row, in order, for a window `pixels` wide. In every pixel column, the
/// boxes cover the fraction of its time that spans take, so idle time stays visible at any zoom:
/// the sum of width · cover over the boxes is the total time of the spans, in pixels. Waits and
/// work have separate boxes. Takes time proportional to the number of columns, and logarithmic in
/// the number of spans in each.
void fold(const SpanRow& row, const TimeWindow& window, double pixels, std::vector<SpanBox>& boxes);

/// Returns the first span of the row that ends after `time`, or row.end().
SpanRow::const_iterator first_ending_after(const SpanRow& row, double time);

/// Pixel columns in which a rank is idle at least part of the time, and the longest part there.
struct IdleBox {
  double left = 0, right = 0;  ///< pixels from the start of the window
  StepPart part = StepPart::other;
  int slot = -1;  ///< of exposed communication: see axis_slots()
  bool operator==(const IdleBox&) const = default;
};

/// Exposed communication narrower than this many pixels takes on the part of its neighbour on the
/// same axis, because its own hatch would not be visible.
constexpr double least_hatched = 8;

/// Appends the pixel columns that the idle pieces of a rank's step touch. In a column, the three
/// parts of exposed communication count together, and are named after the longest of them; `slots`
/// are the slots of the axes.
void fold_idle(const std::vector<StepPiece>& pieces, const std::vector<int>& slots,
               const TimeWindow& window, double pixels, std::vector<IdleBox>& boxes);

}  // namespace lockstep::viz
