// TimelineView: the boxes of the strips, and idle time between them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/views/timeline_view.h"

namespace lockstep::viz {
namespace {

constexpr float ghost_fill = 0.3f;   // opacity
constexpr float unselected = 0.45f;  // share of the colour of actions that are not on the chain
constexpr float not_found = 0.25f;   // the same for spans that do not match the search
constexpr float rounding = 3;
constexpr float rounded_from = 10;     // pixels of width
constexpr float letter_from = 90;      // pixels of width to draw "F3" instead of "3"
constexpr float inset_share = 0.5f;    // of a strip's height, for spans nested in an action
constexpr float least_opacity = 0.3f;  // of messages and kernels
constexpr float clearly_wider =
    1.2f;  // of gaps whose widths differ by less, the first one is labelled
constexpr std::size_t most_looked_at =
    64;  // the number of spans within an action that placing its label considers
constexpr double least_wait = 1.0 / 32;  // of a pixel column; a smaller share looks like idle time
constexpr double least_hatch = 3;        // pixels of width
constexpr float least_row = 0.5f;        // pixels of height below which a row is not visible

std::string label_of(const Timeline& timeline, const TimelineSpan& span, bool wide) {
  const char letter = letter_of(span.category);
  if (letter != 0 && span.microbatch >= 0) {
    return wide ? fmt::format("{}{}", letter, span.microbatch) : fmt::format("{}", span.microbatch);
  }
  if (letter != 0) return std::string(1, letter);
  if (span.category == Category::communication && span.peer >= 0 && span.microbatch >= 0) {
    return fmt::format("{}", span.microbatch);
  }
  if (span.category == Category::wait) return {};
  return std::string{beginning(timeline.name(span.name))};
}

/// Returns whether both spans belong to the same microbatch; hovering over one highlights all of
/// the microbatch's spans.
bool same_microbatch(const TimelineSpan& a, const TimelineSpan& b) {
  return a.microbatch >= 0 && a.microbatch == b.microbatch && a.step == b.step;
}

bool same_span(const TimelineSpan& a, const TimelineSpan& b) {
  return a.start == b.start && a.end == b.end && a.name == b.name;
}

}  // namespace

void TimelineView::draw_strip(const Painter& painter, const Frame& frame, const Model& model,
                              const Strip& strip) {
  const Rect rect = place(frame, strip);
  if (strip.kind == StripKind::compute) {
    fold_compute(painter, frame, strip);
    draw_idle(painter, frame, model, rect);
  } else if (const Rect idle = run_part(frame, model, rect); idle.right > idle.left) {
    painter.fill(idle, faded(palette.lane, 0.6f));
  }
  for (std::size_t i = 0; i < strip.lanes.size(); ++i) {
    if (strip.kind == StripKind::compute) {
      draw_compute(painter, frame, model, strip, *strip.lanes[i], rect);
    } else {
      draw_lane(painter, frame, model, strip, *strip.lanes[i], rect);
    }
  }
}

/// Returns the part of a strip from the run's first span to its last.
std::size_t TimelineView::rows_shown(const Rect& strip, Band band, std::size_t rows) {
  const std::size_t room = band == Band::kernel
                               ? whole_number(strip.height() / least_row)
                               : 1 + whole_number(strip.height() * inset_share / least_row);
  return std::min(rows, room);
}

Rect TimelineView::row_part(const Rect& strip, Band band, std::size_t row, std::size_t shown) {
  Rect part = strip;
  if (band == Band::kernel) {
    part.top += strip.height() * static_cast<float>(row) / static_cast<float>(shown);
    part.bottom = part.top + strip.height() / static_cast<float>(shown);
  } else if (row > 0) {
    part.top = strip.bottom - strip.height() * inset_share / static_cast<float>(row);
  }
  return part;
}

Rect TimelineView::run_part(const Frame& frame, const Model& model, const Rect& rect) {
  Rect part = rect;
  part.left = std::max(rect.left, frame.x(static_cast<double>(model.timeline.start())));
  part.right = std::min(rect.right, frame.x(static_cast<double>(model.timeline.end())));
  return part;
}

/// Prepares the outermost boxes of a rank's compute lane, and the parts of its idle time.
void TimelineView::fold_compute(const Painter& painter, const Frame& frame, const Strip& strip) {
  outer_.clear();
  idle_boxes_.clear();
  const auto& rows = strip.lanes.front()->rows(Band::action);
  const auto pixels = static_cast<double>(frame.lanes.width());
  const Rect rect = place(frame, strip);
  if (!rows.empty() && rect.height() > least_row * painter.px(1))
    fold_row(frame, rows.front(), outer_);
  for (const ExplainedStep* step : explained_)
    if (const RankAccount* rank = step->account.find(strip.rank->rank))
      fold_idle(rank->pieces, axis_slots(step->account.axes), frame.window, pixels, idle_boxes_);
}

/// Draws the background of a compute lane, which shows as idle time wherever nothing covers it.
/// Most of a lane is covered by work, by waits or by explained idle time; nothing is drawn below
/// these, because software OpenGL takes most of a frame's time to fill pixels.
void TimelineView::draw_idle(const Painter& painter, const Frame& frame, const Model& model,
                             const Rect& rect) {
  const Rect run = run_part(frame, model, rect);
  opaque_.clear();
  for (const SpanBox& box : outer_)
    if (box.whole ||
        (box.category == Category::wait && box.opacity >= 1 && box.cover >= least_wait))
      opaque_.push_back({box.left, box.right});
  const auto boxes = static_cast<std::ptrdiff_t>(opaque_.size());
  for (const IdleBox& box : idle_boxes_) opaque_.push_back({box.left, box.right});
  std::inplace_merge(opaque_.begin(), opaque_.begin() + boxes, opaque_.end());
  bare_.clear();
  float left = run.left;
  const auto offer = [&](float right) {
    Rect part = rect;
    part.left = left;
    part.right = std::min(right, run.right);
    if (part.right > part.left) bare_.push_back(part);
  };
  for (const auto& [from, to] : opaque_) {
    offer(frame.lanes.left + static_cast<float>(from));
    left = std::max(left, frame.lanes.left + static_cast<float>(to));
  }
  offer(run.right);
  for (const Rect& part : bare_) painter.fill(part, palette.lane);
  for (const Rect& part : bare_) painter.hatch(part, palette.idle_hatch);
}

void TimelineView::draw_compute(const Painter& painter, const Frame& frame, const Model& model,
                                const Strip& strip, const Lane& lane, const Rect& strip_rect) {
  Rect rect = strip_rect;
  if (!ghosts_.empty()) {
    rect.bottom -= ghost_share * rect.height();
    Rect below = strip_rect;
    below.top = rect.bottom;
    draw_ghosts(painter, frame, strip.rank_index, below);
  }
  const auto& rows = lane.rows(Band::action);
  const std::size_t shown = rows_shown(rect, Band::action, rows.size());
  // From back to front: waits between actions, the parts of idle time, actions, spans within them,
  // labels.
  draw_boxes(painter, frame, model, strip.rank->rank, outer_, rect, Draw::waits);
  draw_parts(painter, frame, rect);
  draw_boxes(painter, frame, model, strip.rank->rank, outer_, rect, Draw::work);
  for (std::size_t i = 1; i < shown; ++i) {
    const Rect part = row_part(rect, Band::action, i, shown);
    fold_row(frame, rows[i], boxes_);
    draw_boxes(painter, frame, model, strip.rank->rank, boxes_, part, Draw::work);
    for (const SpanBox& box : boxes_) {
      Rect room = part;
      room.left = frame.lanes.left + static_cast<float>(box.left);
      room.right = frame.lanes.left + static_cast<float>(box.right);
      if (box.category != Category::wait) draw_label(painter, model, box, room);
    }
    // A wait within an action stops all of the action, so it is as tall as the action.
    draw_boxes(painter, frame, model, strip.rank->rank, boxes_, rect, Draw::waits);
  }
  for (const SpanBox& box : outer_) {
    if (!box.whole || box.category == Category::wait) continue;
    Rect room = rect;
    room.left = frame.lanes.left + static_cast<float>(box.left);
    room.right = frame.lanes.left + static_cast<float>(box.right);
    if (shown > 1) room = widest_free(frame, rows[1], *box.span, room);
    draw_label(painter, model, box, room);
  }
  draw_open(painter, frame, model, lane, rect);
}

Rect TimelineView::widest_free(const Frame& frame, const SpanRow& nested, const TimelineSpan& span,
                               const Rect& rect) {
  Rect widest = rect;
  float left = rect.left, most = 0;
  const auto offer = [&](float right) {
    if (right - left <= clearly_wider * most) return;
    most = right - left;
    widest.left = left;
    widest.right = right;
  };
  auto at =
      first_ending_after(nested, std::max(static_cast<double>(span.start), frame.time(rect.left)));
  for (std::size_t i = 0; i < most_looked_at && at != nested.end() && at->start < span.end;
       ++i, ++at) {
    offer(std::min(rect.right, frame.x(static_cast<double>(at->start))));
    left = std::max(left, frame.x(static_cast<double>(at->end)));
  }
  offer(rect.right);
  return widest;
}

void TimelineView::draw_parts(const Painter& painter, const Frame& frame, const Rect& rect) const {
  const auto place_box = [&](const IdleBox& box) {
    Rect at = rect;
    at.left = frame.lanes.left + static_cast<float>(box.left);
    at.right = frame.lanes.left + static_cast<float>(box.right);
    return at;
  };
  for (const IdleBox& box : idle_boxes_)
    painter.idle_fill(place_box(box), colour_of(box.part, box.slot), 1);
  for (const IdleBox& box : idle_boxes_)
    if (box.right - box.left >= least_hatch)
      painter.idle_hatch(place_box(box), colour_of(box.part, box.slot), 1, hatch_of(box.part));
}

void TimelineView::draw_ghosts(const Painter& painter, const Frame& frame, std::size_t rank,
                               const Rect& rect) const {
  painter.fill(rect, palette.background);
  for (const Ghost* ghost : ghosts_) {
    if (rank >= ghost->ranks.size()) continue;
    for (const GhostAction& action : ghost->ranks[rank]) {
      Rect at = rect;
      at.left = std::max(rect.left, frame.x(static_cast<double>(action.time.start)));
      at.right = std::min(rect.right, frame.x(static_cast<double>(action.time.end)));
      if (at.right <= at.left) continue;
      const ImU32 colour = colour_of(action.category);
      painter.fill(at, faded(colour, ghost_fill));
      painter.frame(at, faded(colour, 0.8f));
      painter.text_in(at, std::to_string(action.microbatch), palette.text_dim,
                      painter.look().small);
    }
  }
}

void TimelineView::draw_lane(const Painter& painter, const Frame& frame, const Model& model,
                             const Strip& strip, const Lane& lane, const Rect& rect) {
  const Band band = strip.kind == StripKind::kernels ? Band::kernel : Band::action;
  const auto& rows = lane.rows(band);
  const std::size_t shown = rows_shown(rect, band, rows.size());
  for (std::size_t i = 0; i < shown; ++i)
    draw_row(painter, frame, model, strip.rank->rank, rows[i], row_part(rect, band, i, shown));
  if (band == Band::action) draw_open(painter, frame, model, lane, rect);
}

void TimelineView::draw_row(const Painter& painter, const Frame& frame, const Model& model,
                            int rank, const SpanRow& row, const Rect& rect) {
  fold_row(frame, row, boxes_);
  draw_boxes(painter, frame, model, rank, boxes_, rect, Draw::all);
  for (const SpanBox& box : boxes_) {
    draw_label(painter, model, box,
               {frame.lanes.left + static_cast<float>(box.left), rect.top,
                frame.lanes.left + static_cast<float>(box.right), rect.bottom});
  }
}

void TimelineView::fold_row(const Frame& frame, const SpanRow& row, std::vector<SpanBox>& boxes) {
  boxes.clear();
  if (boxes_left_ == 0) return;
  fold(row, frame.window, static_cast<double>(frame.lanes.width()), boxes);
  boxes_left_ -= std::min(boxes_left_, boxes.size() + 8);
}

void TimelineView::draw_boxes(const Painter& painter, const Frame& frame, const Model& model,
                              int rank, const std::vector<SpanBox>& boxes, const Rect& rect,
                              Draw which) const {
  const auto place_box = [&](const SpanBox& box) {
    Rect at = rect;
    at.left = frame.lanes.left + static_cast<float>(box.left);
    at.right = frame.lanes.left + static_cast<float>(box.right);
    return at;
  };
  // A wait has the colour and the hatch of its cause, if that is known.
  const auto cause_of_wait = [&](const SpanBox& box) -> const IdleBox* {
    const double middle = (box.left + box.right) / 2;
    const auto part = std::ranges::partition_point(
        idle_boxes_, [&](const IdleBox& each) { return each.right <= middle; });
    return part == idle_boxes_.end() || part->left > middle ? nullptr : &*part;
  };
  const auto colour_of_wait = [&](const IdleBox* cause) {
    return cause ? colour_of(cause->part, cause->slot) : colour_of(Category::wait);
  };
  if (which != Draw::work) {
    for (const SpanBox& box : boxes)
      if (box.category == Category::wait && box.cover >= least_wait)
        painter.idle_fill(place_box(box), colour_of_wait(cause_of_wait(box)),
                          static_cast<float>(box.opacity));
    for (const SpanBox& box : boxes) {
      if (box.category != Category::wait || box.width() < least_hatch) continue;
      const Rect at = place_box(box);
      const IdleBox* cause = cause_of_wait(box);
      painter.idle_hatch(at, colour_of_wait(cause), static_cast<float>(box.opacity),
                         cause ? hatch_of(cause->part) : Hatch{});
      if (box.whole && model.hovered.kind == Finding::Kind::span &&
          same_span(*box.span, model.hovered.span))
        painter.frame(at, palette.highlight);
    }
  }
  if (which == Draw::waits) return;
  // In the lanes of messages and kernels, a few short spans must remain visible.
  const float least = which == Draw::all ? least_opacity : 0;
  for (const SpanBox& box : boxes)
    if (box.category != Category::wait)
      draw_box(painter, model, rank, box, place_box(box),
               std::max(static_cast<float>(box.opacity), least));
}

void TimelineView::draw_box(const Painter& painter, const Model& model, int rank,
                            const SpanBox& box, const Rect& rect, float opacity) const {
  const ImU32 colour = colour_of(box.category);
  const std::optional<TimelineSpan>& span = box.span;
  const Finding& hovered = model.hovered;
  const bool odd = span && span->microbatch >= 0 && span->microbatch % 2 == 1;
  ImU32 fill = odd ? mixed(colour, IM_COL32_WHITE, 0.14f) : colour;
  // While a chain is shown, the other actions of its step are dimmed.
  if (span && span->category != Category::communication && model.chain.chain &&
      span->step == model.chain.step && !model.chain.has(rank, *span))
    fill = mixed(palette.lane, fill, unselected);
  if (span && !model.view.search.empty() && !model.view.search.matches(model.timeline, rank, *span))
    fill = mixed(palette.lane, fill, not_found);
  if (!box.whole) return painter.fill(rect, faded(fill, opacity));
  const float corner = rect.width() >= painter.px(rounded_from) ? painter.px(rounding) : 0;
  painter.fill(rect, fill, std::min(corner, rect.height() / 4));
  // A darker edge separates adjacent boxes without looking like a gap.
  painter.line(rect.left + 0.5f, rect.top + corner, rect.left + 0.5f, rect.bottom - corner,
               mixed(colour, IM_COL32_BLACK, 0.45f));
  const Finding& selected = model.selected;
  if (hovered.kind == Finding::Kind::span &&
      (same_span(*span, hovered.span) || same_microbatch(*span, hovered.span))) {
    painter.frame(rect, faded(palette.highlight, same_span(*span, hovered.span) ? 1 : 0.7f), corner,
                  painter.px(1.5f));
  }
  if (selected.kind == Finding::Kind::span &&
      (same_span(*span, selected.span) || same_microbatch(*span, selected.span))) {
    painter.frame(rect, palette.highlight, corner, painter.px(2));
  }
}

void TimelineView::draw_label(const Painter& painter, const Model& model, const SpanBox& box,
                              const Rect& room) const {
  const Look& look = painter.look();
  if (!box.whole || room.width() < painter.px(8) || room.height() < size_of(look.small)) return;
  const bool wide = box.width() >= static_cast<double>(painter.px(letter_from));
  const bool tall = room.height() >= painter.px(22);
  ImFont* font = tall && letter_of(box.span->category) != 0 ? look.bold : look.small;
  const std::string label = label_of(model.timeline, *box.span, wide);
  if (!painter.text_in(room, label, palette.text_on_box, font) && font == look.bold) {
    painter.text_in(room, label, palette.text_on_box, look.small);
  }
}

}  // namespace lockstep::viz
