#include "viz/views/memory_view.h"
#include "viz/data/step/memory_words.h"
#include "viz/data/step/words.h"
#include "viz/views/tip.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::viz {
namespace {

constexpr float name_width = 52;
constexpr float peak_width = 74;
constexpr float least_row = 15;  // units of height
constexpr float most_row = 46;
constexpr float row_gap = 5;
constexpr float column_width = 2;  // pixels
constexpr float bar_gap = 4;       // on both sides of the scroll bar, in the card's margin

Rect plot_of(const Painter& painter, const Rect& row) {
  return {row.left + painter.px(name_width), row.top, row.right - painter.px(peak_width),
          row.bottom};
}

/// Returns whether the trace divides the memory into parts.
bool has_parts(const Timeline& timeline) {
  return std::ranges::any_of(timeline.ranks(),
                             [](const auto& rank) { return rank->memory_states.count() > 0; });
}

}  // namespace

void MemoryView::refresh(Model& model) {
  const Timeline& timeline = model.timeline;
  const StepKey key = step_key(model);
  const StepWindow* window = timeline.find_step(key.step);
  const ExplainedStep* explained = window ? model.explanations.find(timeline, *window) : nullptr;
  if (key == analysed_ && explained_ == (explained != nullptr) && key.step >= 0) return;
  analysed_ = key;
  explained_ = explained != nullptr;
  peaks_.assign(timeline.ranks().size(), {});
  for (std::size_t i = 0; i < peaks_.size(); ++i) {
    const RankTimeline& rank = *timeline.ranks()[i];
    const auto peak = window ? memory_peak(timeline, rank, key.step) : rank.memory_peak;
    if (peak) peaks_[i].bytes = peak->total();
    // Samples may miss the peak.
    if (const auto exact = window ? peak_of_steps(rank, key.step, key.step) : std::nullopt)
      peaks_[i].bytes = std::max(peaks_[i].bytes, rank.memory_states.total(exact->state));
    if (!explained || i >= explained->in_flight.size()) continue;
    for (const InFlight& change : explained->in_flight[i])
      peaks_[i].in_flight = std::max(peaks_[i].in_flight, change.microbatches);
  }
}

void MemoryView::draw(const Painter& painter, const Rect& rect, Model& model) {
  refresh(model);
  tip_.clear();
  const Look& look = painter.look();
  Rect inside =
      painter.card(rect, info_of(Panel::memory).name,
                   (analysed_.step < 0 ? "" : fmt::format("peak of step {}; ", analysed_.step)) +
                       "dashed: of the run" + (has_parts(model.timeline) ? "; hover: kinds" : ""));
  const std::vector<InFlightRank> in_flight = in_flight_in_view(model);
  int most = 0, chunks = 0;
  for (const InFlightRank& rank : in_flight) {
    most = std::max(most, rank.most);
    chunks = std::max(chunks, rank.chunks);
  }
  inside.top = draw_legend(painter, inside, most, chunks) + painter.px(6);
  const auto& ranks = model.timeline.ranks();
  double top = 0;
  for (const auto& rank : ranks) {
    top = std::max(top, static_cast<double>(rank->highest_total));
  }
  if (top <= 0) {
    painter.text(inside.left, inside.top, "none reported yet", palette.text_faint, look.body);
    return;
  }
  const float fitting = inside.height() / static_cast<float>(ranks.size());
  const float row = std::clamp(fitting, painter.px(least_row), painter.px(most_row));
  shown_ = std::min(ranks.size(), whole_number(inside.height() / row));
  const Rect bar{inside.right + painter.px(bar_gap), inside.top, rect.right - painter.px(bar_gap),
                 inside.bottom};
  const std::size_t first = rows_.update(painter, rect, bar, ranks.size(), shown_);
  for (std::size_t i = first; i < first + shown_; ++i) {
    const float y = inside.top + row * static_cast<float>(i - first);
    const Rect line{inside.left, y, inside.right, y + row - painter.px(row_gap)};
    look_under_cursor(painter, line, *ranks[i], model);
    draw_rank(painter, line, *ranks[i], model.viewport.window(), top,
              most > 0 ? &in_flight[i] : nullptr, most, peaks_[i]);
  }
}

void MemoryView::look_under_cursor(const Painter& painter, const Rect& row,
                                   const RankTimeline& rank, const Model& model) {
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  if (!row.contains(mouse)) return;
  const Rect plot = plot_of(painter, row);
  const TimeWindow& window = model.viewport.window();
  if (plot.contains(mouse)) {
    const double share = static_cast<double>((mouse.x - plot.left) / plot.width());
    tip_ = memory_words_at(model.timeline, rank,
                           static_cast<Picoseconds>(window.begin + share * window.width()),
                           model.origin);
  } else if (analysed_.step >= 0) {
    tip_ = memory_words_at_peak(model.timeline, rank, analysed_.step);
  }
  tip_row_ = row;
}

void MemoryView::draw_tooltip(const Painter& painter) const {
  if (!tip_.empty())
    draw_tip(painter, tip_row_.top - painter.px(row_gap), tip_row_.bottom + painter.px(row_gap),
             tip_, palette.highlight);
}

void MemoryView::draw_rank(const Painter& painter, const Rect& rect, const RankTimeline& rank,
                           const TimeWindow& window, double top, const InFlightRank* in_flight,
                           int most, const Peak& peak) const {
  const Look& look = painter.look();
  const float middle = (rect.top + rect.bottom - size_of(look.small)) / 2;
  painter.text(rect.left, middle, fmt::format("rank {}", rank.rank), palette.text_dim, look.small);
  const Rect plot = plot_of(painter, rect);
  painter.fill(plot, palette.lane);
  const std::size_t count = whole_number(plot.width() / column_width);
  const std::vector<MemoryColumn> columns = memory_columns(rank, window, count);
  const float scale = plot.height() / static_cast<float>(top);
  // Draw runs of equal columns as one rectangle, because memory use rarely changes.
  for (std::size_t i = 0; i < columns.size();) {
    std::size_t next = i + 1;
    while (next < columns.size() && columns[next] == columns[i]) ++next;
    float y = plot.bottom;
    for (std::size_t c = 0; c < columns[i].size(); ++c) {
      const float height = columns[i][c] * scale;
      if (height <= 0) continue;
      painter.fill({plot.left + column_width * static_cast<float>(i), y - height,
                    plot.left + column_width * static_cast<float>(next), y},
                   colour_of(static_cast<MemoryCategory>(c)));
      y -= height;
    }
    i = next;
  }
  if (in_flight) draw_in_flight(painter, plot, in_flight_columns(*in_flight, window, count), most);
  if (!rank.memory_peak) return;
  const float y = plot.bottom - static_cast<float>(rank.highest_total) * scale;
  painter.dashes(plot.left, plot.right, y, faded(palette.highlight, 0.6f));
  const float line = size_of(look.small) + painter.px(1);
  const bool two_lines = peak.in_flight > 0 && rect.height() >= 2 * line;
  if (two_lines)
    painter.text(rect.right, middle + line / 2, fmt::format("{} in flight", peak.in_flight),
                 palette.text_dim, look.small, Align::right);
  painter.text(rect.right, two_lines ? middle - line / 2 : middle, bytes_words(peak.bytes),
               palette.text, look.small, Align::right);
}

void MemoryView::draw_in_flight(const Painter& painter, const Rect& plot,
                                const std::vector<int>& columns, int most) const {
  const float thickness = painter.px(1.5f);
  const auto y_of = [&](int number) {
    return plot.bottom - thickness -
           (plot.height() - 2 * thickness) * static_cast<float>(number) / static_cast<float>(most);
  };
  for (std::size_t i = 0; i < columns.size();) {
    std::size_t next = i + 1;
    while (next < columns.size() && columns[next] == columns[i]) ++next;
    const float left = plot.left + column_width * static_cast<float>(i);
    const float right = plot.left + column_width * static_cast<float>(next);
    if (columns[i] >= 0) {
      const float y = y_of(columns[i]);
      painter.line(left, y, right, y, palette.text, thickness);
      if (next < columns.size() && columns[next] >= 0)
        painter.line(right, y, right, y_of(columns[next]), palette.text, thickness);
    }
    i = next;
  }
}

float MemoryView::draw_legend(const Painter& painter, const Rect& rect, int most_in_flight,
                              int chunks) const {
  const Look& look = painter.look();
  const float size = painter.px(8);
  float x = rect.left, top = rect.top;
  for (int c = 0; c < memory_category_count; ++c) {
    const auto category = static_cast<MemoryCategory>(c);
    const float width = size + painter.px(4) + painter.text_width(name_of(category), look.small);
    if (x > rect.left && x + width > rect.right) {
      x = rect.left;
      top += size_of(look.small) + painter.px(3);
    }
    const float y = top + size_of(look.small) / 2 - size / 2 + 1;
    painter.fill({x, y, x + size, y + size}, colour_of(category), painter.px(2));
    painter.text(x + size + painter.px(4), top, name_of(category), palette.text_dim, look.small);
    x += width + painter.px(8);
  }
  if (most_in_flight > 0) {
    const std::string words = fmt::format("{}, up to {}", in_flight_words(chunks), most_in_flight);
    if (x > rect.left && x + 2 * size + painter.text_width(words, look.small) > rect.right) {
      x = rect.left;
      top += size_of(look.small) + painter.px(3);
    }
    const float y = top + size_of(look.small) / 2 + 1;
    painter.line(x, y, x + size, y, palette.text, painter.px(1.5f));
    painter.text(x + size + painter.px(4), top, words, palette.text_dim, look.small);
  }
  return top + size_of(look.small);
}

}  // namespace lockstep::viz
