#pragma once

#include <vector>

#include "core/trace/timeline.h"
#include "viz/data/viewport.h"

namespace lockstep::viz {

/// Something to draw of a row of spans: one span, or a few pixels' worth of spans too small to be
/// drawn alone.
struct Box {
  double left = 0;  ///< pixels from the window's begin, clipped to it
  double right = 0;
  double cover = 1;                      ///< the share of the box in which spans run
  const TimelineSpan* span = nullptr;    ///< null for a fold; valid until the timeline changes
  Category category = Category::kernel;  ///< of a fold: which has most of it
  int count = 1;                         ///< spans that it stands for
  double width() const { return right - left; }
};

/// Spans narrower than this many pixels are folded.
constexpr double fold_below = 3;

/// The boxes of a row in a window that is `pixels` wide, in order. Small spans are folded into
/// whole pixel columns that say how full they are, so idle time is kept: the sum of width · cover
/// over the boxes is the time in spans, in pixels. Linear in the spans in the window.
void fold(const SpanRow& row, const TimeWindow& window, double pixels, std::vector<Box>& boxes);

/// The first span of the row that ends after `time`; row.end() if none.
SpanRow::const_iterator first_ending_after(const SpanRow& row, double time);

}  // namespace lockstep::viz
