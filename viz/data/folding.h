#pragma once

#include <vector>

#include "core/trace/timeline.h"
#include "viz/data/viewport.h"

namespace lockstep::viz {

/// A drawable part of a row: one span, or a fold of spans too small to draw individually.
struct Box {
  double left = 0;  ///< pixels from the start of the window, clipped to it
  double right = 0;
  double cover = 1;                      ///< fraction of the box covered by spans
  const TimelineSpan* span = nullptr;    ///< null for a fold; valid until the timeline changes
  Category category = Category::kernel;  ///< for a fold: the category that covers most of it
  int count = 1;                         ///< number of spans in it
  double width() const { return right - left; }
};

/// Spans narrower than this many pixels are folded.
constexpr double fold_below = 3;

/// Computes the boxes of a row, in order, for a window `pixels` wide. Small spans are folded into
/// whole pixel columns with a fill fraction, so idle time is preserved: the sum of width · cover
/// over the boxes is the total time of the spans, in pixels. Takes time linear in the number of
/// spans in the window.
void fold(const SpanRow& row, const TimeWindow& window, double pixels, std::vector<Box>& boxes);

/// Returns the first span of the row that ends after `time`, or row.end().
SpanRow::const_iterator first_ending_after(const SpanRow& row, double time);

}  // namespace lockstep::viz
