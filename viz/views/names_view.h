#pragma once

#include <optional>
#include <vector>

#include "viz/data/window/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// The card of a selected range: its statistics by name, with a histogram of the durations of the
/// chosen name, or by rank.
class NamesView {
 public:
  /// Returns the span that the user wants to jump to: the longest or the shortest one of a name, or
  /// the next one of the bin that was clicked.
  std::optional<Finding> draw(const Painter& painter, const Rect& card, Model& model);

  /// The places of rows, headings and bins in the last frame, for tests.
  const std::vector<Rect>& rows() const { return row_rects_; }
  const std::vector<Rect>& headings() const { return heading_rects_; }
  const std::vector<Rect>& bins() const { return bin_rects_; }
  /// The links to the longest spans: one in each row, if there is room for the column, and one
  /// below the histogram.
  const std::vector<Rect>& links_to_longest() const { return longest_rects_; }
  NameColumn sorted_by() const { return sort_; }
  /// Returns whether the wheel has scrolled the names in the last frame.
  bool scrolled() const { return scrolled_; }

 private:
  Rect draw_tabs(const Painter& painter, const Rect& card, Model& model) const;
  std::optional<Finding> draw_table(const Painter& painter, const Rect& rect, Model& model);
  void draw_headings(const Painter& painter, const Rect& rect, const std::vector<float>& rights);
  std::optional<Finding> draw_histogram(const Painter& painter, const Rect& rect, Model& model);
  /// Returns the next span of a kind in the range that takes exactly this long.
  static std::optional<Finding> span_of_duration(const Model& model, const SpanKind& kind,
                                                 Picoseconds duration);
  void sort(const Model& model);

  NameColumn sort_ = NameColumn::total;
  bool reversed_ = false;
  std::size_t first_ = 0;  ///< the row at the top
  bool scrolled_ = false;
  std::vector<NameTotal> rows_;
  std::int64_t version_ = -1;  ///< of the statistics that rows_ are sorted from
  std::vector<Rect> row_rects_, heading_rects_, bin_rects_, longest_rects_;
};

}  // namespace lockstep::viz
