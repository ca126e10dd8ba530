// TimelineView: the overview of the whole run, the time axis and the steps.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "viz/views/timeline_view.h"

namespace lockstep::viz {
namespace {

constexpr float mark_spacing = 120;  // pixels, minimum
constexpr float least_step_label = 14;
constexpr std::size_t most_overview_ranks = 32;
constexpr auto free_folding = std::chrono::milliseconds{2};  // cheap enough for every frame

}  // namespace

void TimelineView::fold_overview(const Timeline& timeline, const TimeWindow& whole, float width) {
  using Clock = std::chrono::steady_clock;
  const bool is_new = overview_.width != width || timeline.span_count() < overview_.spans;
  if (!is_new && timeline.span_count() == overview_.spans) return;
  const auto begin = Clock::now();
  if (!is_new && begin < overview_.again_from && !timeline.ended()) return;
  const std::size_t ranks = std::min(timeline.ranks().size(), most_overview_ranks);
  overview_.boxes.assign(ranks, {});
  for (std::size_t i = 0; i < ranks; ++i) {
    const Lane* compute = timeline.ranks()[i]->compute();
    if (!compute || compute->rows(Band::action).empty()) continue;
    fold(compute->rows(Band::action).front(), whole, static_cast<double>(width),
         overview_.boxes[i]);
  }
  overview_.window = whole;
  overview_.spans = timeline.span_count();
  overview_.width = width;
  const auto took = Clock::now() - begin;
  overview_.again_from = took < free_folding ? begin : begin + 20 * took;
}

void TimelineView::draw_overview(const Painter& painter, const Frame& frame, const Model& model) {
  const Timeline& timeline = model.timeline;
  const Rect& rect = frame.overview;
  const TimeWindow whole{
      static_cast<double>(timeline.start()),
      std::max(static_cast<double>(timeline.end()), static_cast<double>(timeline.start()) + 1)};
  fold_overview(timeline, whole, rect.width());
  painter.fill(rect, palette.panel, painter.px(3));
  const float height = (rect.height() - painter.px(4)) /
                       static_cast<float>(std::max<std::size_t>(overview_.boxes.size(), 1));
  // The run may have grown longer since the boxes were folded.
  const double begin = (overview_.window.begin - whole.begin) / whole.width() * rect.width();
  const double scale = overview_.window.width() / whole.width();
  for (std::size_t i = 0; i < overview_.boxes.size(); ++i) {
    const float top = rect.top + painter.px(2) + height * static_cast<float>(i);
    for (const SpanBox& box : overview_.boxes[i]) {
      if (box.category == Category::wait) continue;
      painter.fill({rect.left + static_cast<float>(begin + box.left * scale), top,
                    rect.left + static_cast<float>(begin + box.right * scale),
                    top + height - (height > 3 ? 1.0f : 0.0f)},
                   faded(colour_of(box.category), static_cast<float>(box.opacity) * 0.8f));
    }
  }
  const auto x = [&](double time) {
    const double share = (time - whole.begin) / whole.width();
    return rect.left + rect.width() * static_cast<float>(std::clamp(share, 0.0, 1.0));
  };
  const float left = x(frame.window.begin), right = x(frame.window.end);
  painter.fill({rect.left, rect.top, left, rect.bottom}, faded(palette.background, 0.62f));
  painter.fill({right, rect.top, rect.right, rect.bottom}, faded(palette.background, 0.62f));
  painter.frame({left, rect.top, std::max(right, left + 2), rect.bottom}, palette.text_dim,
                painter.px(2));
  // If there are several ranks, the controls of the rows are beside the overview.
  if (model.timeline.ranks().size() > 1) return;
  const Look& look = painter.look();
  painter.text(frame.names.right - painter.px(10),
               (rect.top + rect.bottom - size_of(look.small)) / 2, "whole run", palette.text_faint,
               look.small, Align::right);
}

void TimelineView::draw_axis(const Painter& painter, const Frame& frame, const Model& model) const {
  const Look& look = painter.look();
  const double spacing =
      round_spacing(static_cast<double>(painter.px(mark_spacing)) / frame.pixels_per_picosecond);
  const auto origin = static_cast<double>(model.origin);
  const double first = std::ceil((frame.window.begin - origin) / spacing);
  const std::size_t most = whole_number(frame.axis.width() / painter.px(mark_spacing)) + 2;
  for (std::size_t i = 0; i < most; ++i) {
    const double at = (first + static_cast<double>(i)) * spacing;
    if (origin + at >= frame.window.end) break;
    const float x = frame.x(origin + at);
    painter.line(x, frame.lanes.top, x, frame.lanes.bottom, palette.grid);
    if (frame.axis.height() <= 0) continue;
    painter.line(x, frame.axis.bottom - painter.px(4), x, frame.axis.bottom, palette.text_faint);
    const double shown = std::abs(at) < spacing / 2 ? 0 : at;
    const std::string words = axis_words(shown, spacing);
    // At the right end, a number moves left so that it ends at the lanes' margin; at the left end,
    // it moves right so that it does not touch the text above the names.
    const float half = painter.text_width(words, look.small) / 2;
    const float last = frame.axis.right + painter.px(right_edge - 8) - half;
    painter.text(std::min(std::max(x, frame.axis.left + half), last),
                 frame.axis.top + painter.px(4), words, palette.text_dim, look.small,
                 Align::centre);
  }
}

void TimelineView::draw_steps(const Painter& painter, const Frame& frame,
                              const Model& model) const {
  const Look& look = painter.look();
  const auto& steps = model.timeline.steps();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Rect rect = frame.steps;
    if (!frame.shows(steps[i])) continue;
    const Interval time = time_of(steps[i]);
    const Picoseconds end =
        i + 1 < steps.size() ? std::min(time.end, time_of(steps[i + 1]).start) : time.end;
    rect.left = std::max(rect.left, frame.x(static_cast<double>(time.start)));
    rect.right = std::min(rect.right, frame.x(static_cast<double>(end)));
    if (rect.right <= rect.left + 1) continue;
    rect.right -= 1;
    const bool described = !compared_ && model.described && model.described->step == steps[i].step;
    const bool locked = described && model.view.locked_step == steps[i].step;
    painter.fill(rect,
                 locked       ? palette.accent
                 : i % 2 == 0 ? palette.step_even
                              : palette.step_odd,
                 painter.px(2));
    if (described) painter.frame(rect, palette.accent, painter.px(2), painter.px(1.5f));
    if (rect.width() < painter.px(least_step_label)) continue;
    const ImU32 ink = locked ? palette.text_on_accent : described ? palette.text : palette.text_dim;
    std::string words = fmt::format("step {}", steps[i].step);
    const std::string& phase = model.timeline.prediction(steps[i].step).phase;
    if (!phase.empty() && model.timeline.predictions().size() > 1) words += ", " + phase;
    if (locked && painter.text_in(rect, words + ", locked: click to unlock", ink, look.small))
      continue;
    if (locked) words += ", locked";
    if (!painter.text_in(rect, words, ink, look.small))
      painter.text_in(rect, fmt::format("{}", steps[i].step), ink, look.small);
  }
}

void TimelineView::draw_described(const Painter& painter, const Frame& frame,
                                  const Model& model) const {
  if (!model.described) return;
  const StepWindow* step = model.timeline.find_step(model.described->step);
  if (!step || !frame.shows(*step)) return;
  const Interval time = time_of(*step);
  const float left = frame.x(static_cast<double>(time.start));
  const float right = frame.x(static_cast<double>(time.end));
  painter.fill({std::max(left, frame.lanes.left), frame.lanes.top - painter.px(2),
                std::min(right, frame.lanes.right), frame.lanes.top},
               palette.accent);
  const float bottom = std::min(frame.lanes.bottom, frame.lanes.top + layout_.height() - scroll_);
  for (const float x : {left, right})
    if (x >= frame.lanes.left && x <= frame.lanes.right)
      painter.line(x, frame.lanes.top, x, bottom, faded(palette.accent, 0.8f), painter.px(1.5f));
}

}  // namespace lockstep::viz
