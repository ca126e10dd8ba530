// TimelineView: lane names, boxes, hatching and messages.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/views/timeline_view.h"

namespace lockstep::viz {
namespace {

constexpr float rounding = 3;
constexpr float rounded_from = 10;        // pixels of width
constexpr float letter_from = 90;         // pixels of width to draw "F3" instead of "3"
constexpr float inset_share = 0.5f;       // of a strip's height, for spans nested in an action
constexpr float least_fold_alpha = 0.3f;  // keeps a nearly empty fold visible
constexpr std::size_t most_arrows = 300;  // more would cover everything
constexpr float arrow_size = 4.5f;
constexpr std::size_t most_open = 64;  // in a run, a lane has at most 8
constexpr float least_row = 0.5f;      // pixels of height below which a row is not visible
constexpr float least_open = 6;        // minimum width in pixels of an open span

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

bool shows(const Strip& strip, const Lane* lane) {
  return std::find(strip.lanes.begin(), strip.lanes.end(), lane) != strip.lanes.end();
}

bool same_span(const TimelineSpan& a, const TimelineSpan& b) {
  return a.start == b.start && a.end == b.end && a.name == b.name;
}

}  // namespace

void TimelineView::draw_names(const Painter& painter, const Frame& frame,
                              const Model& model) const {
  const Look& look = painter.look();
  const float left = frame.names.left + painter.px(26);
  const float right = frame.names.right - painter.px(10);
  for (const RankGroup& group : layout_.groups()) {
    const float top = frame.names.top + group.top - scroll_;
    if (top + group.height < frame.names.top || top > frame.names.bottom) continue;
    // A triangle shows whether the rank is expanded or collapsed.
    const float middle = top + layout_.strips()[group.first].height / 2;
    const float size = painter.px(3.5f);
    const float x = frame.names.left + painter.px(17);
    if (group.collapsed) {
      painter.list()->AddTriangleFilled({x - size / 2, middle - size}, {x + size, middle},
                                        {x - size / 2, middle + size}, colours::text_faint);
    } else {
      painter.list()->AddTriangleFilled({x - size, middle - size / 2},
                                        {x + size, middle - size / 2}, {x, middle + size},
                                        colours::text_faint);
    }
    const float text_top = middle - look.bold->FontSize / 2;
    const ImU32 colour = colours::text;
    painter.text(left, text_top, group.rank->name, colour, look.bold);
    std::string note = fmt::format("{} spans", group.rank->spans);
    ImU32 note_colour = colours::text_faint;
    if (group.rank->ended && group.rank->spans_written >= 0 &&
        group.rank->spans_written != group.rank->spans) {
      note = fmt::format("{}/{} spans", group.rank->spans, group.rank->spans_written);
      note_colour = colours::trouble;
    }
    painter.text(right, middle - look.small->FontSize / 2, note, note_colour, look.small,
                 Align::right);
    for (std::size_t i = group.first + 1; i < group.first + group.count; ++i) {
      const Strip& strip = layout_.strips()[i];
      const Rect at = place(frame, strip);
      const float height = look.small->FontSize;
      if (strip.height < height * 0.8f) continue;
      const bool kernels = strip.kind == StripKind::kernels && strip.lanes.front()->is_compute();
      painter.text(right, (at.top + at.bottom - height) / 2, kernels ? "kernels" : strip.name(),
                   shows(strip, model.hovered.lane) ? colours::text : colours::text_faint,
                   look.small, Align::right);
    }
  }
}

void TimelineView::draw_strip(const Painter& painter, const Frame& frame, const Model& model,
                              const Strip& strip) {
  const Rect rect = place(frame, strip);
  // From the run's first span to its last, the lane is idle unless a span covers it.
  Rect idle = rect;
  idle.left = std::max(rect.left, frame.x(static_cast<double>(model.timeline.start())));
  idle.right = std::min(rect.right, frame.x(static_cast<double>(model.timeline.end())));
  if (idle.right > idle.left) {
    painter.fill(idle,
                 strip.kind == StripKind::compute ? colours::lane : faded(colours::lane, 0.6f));
    if (strip.kind == StripKind::compute) painter.hatch(idle, colours::idle_hatch);
  }
  for (const Lane* lane : strip.lanes) draw_lane(painter, frame, model, *lane, strip.kind, rect);
}

void TimelineView::draw_lane(const Painter& painter, const Frame& frame, const Model& model,
                             const Lane& lane, StripKind kind, const Rect& rect) {
  if (kind == StripKind::kernels) {
    const auto& rows = lane.rows(Band::kernel);
    const std::size_t shown = std::min(rows.size(), whole_number(rect.height() / least_row));
    for (std::size_t i = 0; i < shown; ++i) {
      Rect part = rect;
      part.top += rect.height() * static_cast<float>(i) / static_cast<float>(shown);
      part.bottom = part.top + rect.height() / static_cast<float>(shown);
      draw_row(painter, frame, model, rows[i], part, part.bottom);
    }
    return;
  }
  const auto& rows = lane.rows(Band::action);
  const std::size_t shown =
      std::min(rows.size(), 1 + whole_number(rect.height() * inset_share / least_row));
  for (std::size_t i = 0; i < shown; ++i) {
    Rect part = rect;
    if (i > 0) part.top = rect.bottom - rect.height() * inset_share / static_cast<float>(i);
    // Nested spans cover the lower part of an action; keep the label above them.
    const float free = i == 0 && rows.size() > 1 ? 1 - inset_share : 1;
    draw_row(painter, frame, model, rows[i], part, part.top + free * part.height());
  }
  draw_open(painter, frame, model, lane, rect);
}

void TimelineView::draw_row(const Painter& painter, const Frame& frame, const Model& model,
                            const SpanRow& row, const Rect& rect, float label_bottom) {
  if (boxes_left_ == 0) return;
  fold(row, frame.window, static_cast<double>(frame.lanes.width()), boxes_);
  boxes_left_ -= std::min(boxes_left_, boxes_.size() + 8);
  for (const Box& box : boxes_) {
    Rect at = rect;
    at.left = frame.lanes.left + static_cast<float>(box.left);
    at.right = frame.lanes.left + static_cast<float>(box.right);
    draw_box(painter, model, box, at, label_bottom);
  }
}

void TimelineView::draw_box(const Painter& painter, const Model& model, const Box& box,
                            const Rect& rect, float label_bottom) const {
  const Look& look = painter.look();
  const ImU32 colour = colour_of(box.category);
  if (!box.span) {
    const float cover = std::max(static_cast<float>(box.cover), least_fold_alpha);
    painter.fill(rect, faded(box.category == Category::wait ? colours::wait_hatch : colour, cover));
    return;
  }
  const TimelineSpan& span = *box.span;
  if (span.category == Category::wait) {
    painter.fill(rect, colour);
    painter.hatch(rect, colours::wait_hatch);
    if (model.hovered.kind == Finding::Kind::span && same_span(span, model.hovered.span)) {
      painter.frame(rect, colours::highlight);
    }
    return;
  }
  const bool odd = span.microbatch >= 0 && span.microbatch % 2 == 1;
  const ImU32 fill = odd ? mixed(colour, IM_COL32_WHITE, 0.14f) : colour;
  const float corner = rect.width() >= painter.px(rounded_from) ? painter.px(rounding) : 0;
  painter.fill(rect, fill, std::min(corner, rect.height() / 4));
  // A darker edge separates adjacent boxes without looking like a gap.
  painter.line(rect.left + 0.5f, rect.top + corner, rect.left + 0.5f, rect.bottom - corner,
               mixed(colour, IM_COL32_BLACK, 0.45f));
  const bool wide = rect.width() >= painter.px(letter_from);
  const Rect room{rect.left, rect.top, rect.right, label_bottom};
  if (room.width() >= painter.px(8) && room.height() >= look.small->FontSize) {
    const bool tall = room.height() >= painter.px(22);
    ImFont* font = tall && letter_of(span.category) != 0 ? look.bold : look.small;
    const std::string label = label_of(model.timeline, span, wide);
    if (!painter.text_in(room, label, colours::text_on_box, font) && font == look.bold) {
      painter.text_in(room, label, colours::text_on_box, look.small);
    }
  }
  const Finding& hovered = model.hovered;
  const Finding& selected = model.selected;
  if (hovered.kind == Finding::Kind::span &&
      (same_span(span, hovered.span) || same_microbatch(span, hovered.span))) {
    painter.frame(rect, faded(colours::highlight, same_span(span, hovered.span) ? 1 : 0.7f), corner,
                  painter.px(1.5f));
  }
  if (selected.kind == Finding::Kind::span &&
      (same_span(span, selected.span) || same_microbatch(span, selected.span))) {
    painter.frame(rect, colours::highlight, corner, painter.px(2));
  }
}

void TimelineView::draw_open(const Painter& painter, const Frame& frame, const Model& model,
                             const Lane& lane, const Rect& rect) const {
  std::size_t drawn = 0;
  for (const AnnouncedSpan& open : lane.open()) {
    Rect at = rect;
    at.left = std::max(rect.left, frame.x(static_cast<double>(open.span.start)));
    // On the modelled clock, time stops while a rank is stalled, so draw a box of minimum width.
    const float announced = frame.x(static_cast<double>(open.span.end));
    at.right = std::min(rect.right, std::max(announced, at.left + painter.px(least_open)));
    if (announced < rect.left || at.right <= at.left) continue;
    if (++drawn > most_open) break;
    painter.fill(at, faded(colours::trouble, 0.25f));
    painter.hatch(at, colours::wait_hatch);
    painter.frame(at, colours::trouble);
    painter.text_in(at, model.timeline.name(open.span.name) + ", still running", colours::text,
                    painter.look().small);
  }
}

void TimelineView::draw_messages(const Painter& painter, const Frame& frame,
                                 const Model& model) const {
  const auto& messages = model.timeline.messages();
  const double earliest =
      frame.window.begin - static_cast<double>(model.timeline.longest_message());
  const auto sent_before = [&](double time) {
    return std::partition_point(messages.begin(), messages.end(), [&](const Message& message) {
      return static_cast<double>(message.sent) < time;
    });
  };
  const auto first = sent_before(earliest);
  const auto last = sent_before(frame.window.end);
  if (last - first > static_cast<std::ptrdiff_t>(most_arrows)) return;
  for (auto message = first; message != last; ++message) {
    const float from_y = layout_.anchor(message->from_rank, message->from_lane);
    const float to_y = layout_.anchor(message->to_rank, message->to_lane);
    if (from_y < 0 || to_y < 0 || from_y == to_y) continue;
    const ImVec2 from{frame.x(static_cast<double>(message->sent)),
                      frame.lanes.top + from_y - scroll_};
    const ImVec2 to{frame.x(static_cast<double>(message->received)),
                    frame.lanes.top + to_y - scroll_};
    if (to.x < frame.lanes.left) continue;
    painter.line(from.x, from.y, to.x, to.y, colours::message, painter.px(1));
    const float length = std::hypot(to.x - from.x, to.y - from.y);
    if (length < painter.px(8)) continue;
    const ImVec2 along{(to.x - from.x) / length * painter.px(arrow_size),
                       (to.y - from.y) / length * painter.px(arrow_size)};
    painter.list()->AddTriangleFilled(
        to, {to.x - 1.6f * along.x - 0.6f * along.y, to.y - 1.6f * along.y + 0.6f * along.x},
        {to.x - 1.6f * along.x + 0.6f * along.y, to.y - 1.6f * along.y - 0.6f * along.x},
        colours::message);
    painter.list()->AddCircleFilled(from, painter.px(2), colours::message, 8);
  }
}

void TimelineView::draw_hovered(const Painter& painter, const Frame& frame,
                                const Model& model) const {
  const Finding& finding = model.hovered;
  if (finding.kind != Finding::Kind::idle) return;
  for (const Strip& strip : layout_.strips()) {
    if (!shows(strip, finding.lane) || strip.kind == StripKind::kernels) continue;
    Rect at = place(frame, strip);
    at.left = std::max(at.left, frame.x(static_cast<double>(finding.span.start)));
    at.right = std::min(at.right, frame.x(static_cast<double>(finding.span.end)));
    painter.frame(at, faded(colours::highlight, 0.8f), 0, painter.px(1));
  }
}

}  // namespace lockstep::viz
