// TimelineView: overlays on the boxes: open spans, messages and the gap under the cursor.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/views/timeline_view.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t most_arrows = 300;  // more would cover everything
constexpr float not_yet = 0.88f;          // opacity over the part that a playback has not reached
constexpr float path_thickness = 3;
constexpr float arrow_size = 4.5f;
constexpr std::size_t most_open = 64;  // in a run, a lane has at most 8
constexpr float least_outline = 7;     // pixels of width of the outline of a selected span
constexpr float least_open = 6;        // minimum width in pixels of an open span

}  // namespace

void TimelineView::draw_open(const Painter& painter, const Frame& frame, const Model& model,
                             const Lane& lane, const Rect& rect) {
  const bool live = model.source.live;
  std::size_t drawn = 0;
  for (const AnnouncedSpan& open : lane.open()) {
    const Picoseconds end =
        open_spans_.end_of(model.timeline, lane, open, live, OpenSpans::Clock::now());
    Rect at = rect;
    at.left = std::max(rect.left, frame.x(static_cast<double>(open.span.start)));
    // On the modelled clock, time stops while all ranks are stalled, so draw a minimum width.
    const float right = frame.x(static_cast<double>(end));
    at.right = std::min(rect.right, std::max(right, at.left + painter.px(least_open)));
    if (right < rect.left || at.right <= at.left) continue;
    if (++drawn > most_open) break;
    growing_ |= live && !model.timeline.ended() && model.timeline.run().clock == "wall";
    // An open span has the colour of its kind, but hatching and a frame show that it has not ended.
    painter.idle(at, colour_of(open.span.category));
    painter.frame(at, palette.text_dim);
    const std::string& name = model.timeline.name(open.span.name);
    const std::string time = duration_words(end - open.span.start);
    if (!painter.text_in(at, fmt::format("{}, running for {}", beginning(name), time), palette.text,
                         painter.look().small))
      painter.text_in(at, time, palette.text, painter.look().small);
  }
}

void TimelineView::draw_messages(const Painter& painter, const Frame& frame,
                                 const Model& model) const {
  const auto& messages = model.timeline.messages();
  const double earliest =
      frame.window.begin - static_cast<double>(model.timeline.longest_message());
  const auto sent_before = [&](double time) {
    return std::partition_point(
        messages.begin(), messages.end(),
        [&](const TimelineMessage& message) { return static_cast<double>(message.sent) < time; });
  };
  const auto first = sent_before(earliest);
  const auto last = sent_before(frame.window.end);
  if (last - first > static_cast<std::ptrdiff_t>(most_arrows)) return;
  for (auto message = first; message != last; ++message) {
    const float from_y = layout_.anchor(message->from_rank, message->from_lane);
    const float to_y = layout_.anchor(message->to_rank, message->to_lane);
    if (from_y < 0 || to_y < 0 || from_y == to_y) continue;
    const ImVec2 from{frame.x(static_cast<double>(message->sent)), screen_y(frame, from_y)};
    const ImVec2 to{frame.x(static_cast<double>(message->received)), screen_y(frame, to_y)};
    if (to.x < frame.lanes.left) continue;
    painter.line(from.x, from.y, to.x, to.y, palette.message, painter.px(1));
    const float length = std::hypot(to.x - from.x, to.y - from.y);
    if (length < painter.px(8)) continue;
    const ImVec2 along{(to.x - from.x) / length * painter.px(arrow_size),
                       (to.y - from.y) / length * painter.px(arrow_size)};
    painter.list()->AddTriangleFilled(
        to, {to.x - 1.6f * along.x - 0.6f * along.y, to.y - 1.6f * along.y + 0.6f * along.x},
        {to.x - 1.6f * along.x + 0.6f * along.y, to.y - 1.6f * along.y - 0.6f * along.x},
        palette.message);
    painter.list()->AddCircleFilled(from, painter.px(2), palette.message, 8);
  }
}

std::optional<Rect> TimelineView::place(const Frame& frame, int rank, const Interval& time) const {
  const RankGroup* group = layout_.find_shared(rank);
  if (!group) return {};
  Rect rect = place(frame, layout_.strips()[group->first]);
  if (!ghosts_.empty()) rect.bottom -= ghost_share * rect.height();
  rect.left = frame.x(static_cast<double>(time.start));
  rect.right = frame.x(static_cast<double>(time.end));
  if (rect.right < frame.lanes.left || rect.left > frame.lanes.right) return {};
  return rect;
}

void TimelineView::draw_critical_path(const Painter& painter, const Frame& frame) const {
  const ImU32 colour = palette.critical_path;
  const float thick = painter.px(path_thickness);
  for (const ExplainedStep* step : explained_) {
    if (!step->path) continue;
    ImVec2 last{};  // where the previous link ended, if it was drawn
    bool connected = false;
    for (const PathLink& link : step->path->links) {
      if (link.kind == PathLink::Kind::other) continue;
      const int to_rank = link.kind == PathLink::Kind::latency ? link.to_rank : link.rank;
      const auto from = place(frame, link.rank, link.time), to = place(frame, to_rank, link.time);
      if (!from || !to) {
        connected = false;
        continue;
      }
      const ImVec2 begin{from->left, from->bottom - thick}, end{to->right, to->bottom - thick};
      if (connected) painter.line(last.x, last.y, begin.x, begin.y, colour, thick);
      painter.line(begin.x, begin.y, end.x, end.y, colour, thick);
      if (link.kind == PathLink::Kind::action)
        painter.frame(*from, colour, painter.px(3), painter.px(2));
      last = end;
      connected = true;
    }
  }
}

void TimelineView::draw_chain(const Painter& painter, const Frame& frame,
                              const Model& model) const {
  if (!model.chain.chain) return;
  const DataChain& chain = *model.chain.chain;
  const auto connect = [&](const PathLink& from, const PathLink& to) {
    const auto a = place(frame, from.rank, from.time), b = place(frame, to.rank, to.time);
    if (!a || !b || from.rank == to.rank) return;
    painter.line(a->right, (a->top + a->bottom) / 2, b->left, (b->top + b->bottom) / 2,
                 palette.highlight, painter.px(2));
  };
  const auto outline = [&](int rank, const Interval& time) {
    const auto at = place(frame, rank, time);
    if (at) painter.frame(*at, faded(palette.highlight, 0.8f), painter.px(3), painter.px(1.5f));
  };
  for (std::size_t i = 0; i < chain.before.size(); ++i) {
    outline(chain.before[i].rank, chain.before[i].time);
    connect(chain.before[i], i + 1 < chain.before.size() ? chain.before[i + 1] : chain.action);
  }
  const PathLink* from = &chain.action;
  for (const PathLink& link : chain.after) {
    outline(link.rank, link.time);
    if (link.category == Category::backward_weight) continue;  // its result goes to the optimizer
    connect(*from, link);
    from = &link;
  }
  for (const DataChain::Update& update : chain.updates) outline(update.rank, update.time);
}

void TimelineView::draw_playback(const Painter& painter, const Frame& frame,
                                 const Model& model) const {
  if (!model.playback.active()) return;
  const float x = frame.x(model.playback.cursor());
  const Rect hidden{std::max(x, frame.lanes.left), frame.lanes.top, frame.lanes.right,
                    frame.lanes.bottom};
  if (hidden.left < hidden.right) painter.fill(hidden, faded(palette.background, not_yet));
  if (x < frame.lanes.left || x > frame.lanes.right) return;
  painter.line(x, frame.lanes.top, x, frame.lanes.bottom, palette.accent, painter.px(2));
}

void TimelineView::draw_marks(const Painter& painter, const Frame& frame,
                              const Model& model) const {
  const Look& look = painter.look();
  const auto band = [&](const Interval& time, ImU32 colour, const std::string& words) {
    const float left = frame.x(static_cast<double>(time.start));
    const float right = frame.x(static_cast<double>(time.end));
    if (right < frame.lanes.left || left > frame.lanes.right) return;
    const Rect rect{std::max(left, frame.lanes.left), frame.lanes.top,
                    std::min(right, frame.lanes.right), frame.lanes.bottom};
    if (time.start < time.end) painter.fill(rect, faded(colour, 0.10f));
    for (const float x : {left, right})
      if (x >= frame.lanes.left && x <= frame.lanes.right)
        painter.line(x, frame.lanes.top, x, frame.lanes.bottom, colour, painter.px(1.5f));
    const float width = painter.text_width(words, look.small) + painter.px(8);
    const float x = std::clamp((rect.left + rect.right - width) / 2, frame.lanes.left,
                               frame.lanes.right - width);
    const Rect label{x, frame.lanes.bottom - size_of(look.small) - painter.px(6), x + width,
                     frame.lanes.bottom};
    painter.label(label, {label.left + painter.px(4), label.top + painter.px(3)}, words, colour,
                  palette.text_on_accent, look.small);
  };
  const auto words = [&](const Interval& time) {
    return time.start < time.end ? duration_words(time.end - time.start)
                                 : axis_words(static_cast<double>(time.start - model.origin),
                                              frame.window.width() / 1000);
  };
  for (const Interval& mark : model.view.marks) band(mark, palette.mark, words(mark));
  if (model.view.range)
    band(model.view.range->range, palette.accent, words(model.view.range->range));
}

void TimelineView::draw_idle_outlines(const Painter& painter, const Frame& frame,
                                      const Model& model) const {
  const auto outline = [&](const Finding& finding, float thickness, float least) {
    const Band band = band_of(finding.span.category);
    for (const Strip& strip : layout_.strips()) {
      if (!strip.shows(finding.lane)) continue;
      const bool idle = finding.kind == Finding::Kind::idle;
      if ((strip.kind == StripKind::kernels) != (!idle && band == Band::kernel)) continue;
      Rect at = place(frame, strip);
      at.left = frame.x(static_cast<double>(finding.span.start));
      at.right = frame.x(static_cast<double>(finding.span.end));
      const float missing = least - at.width();
      if (missing > 0) {
        at.left -= missing / 2;
        at.right += missing / 2;
      }
      at.left = std::max(at.left, frame.lanes.left);
      at.right = std::min(at.right, frame.lanes.right);
      if (at.left < at.right)
        painter.frame(at, faded(palette.highlight, 0.8f), 0, painter.px(thickness));
    }
  };
  if (model.hovered.kind == Finding::Kind::idle) outline(model.hovered, 1, 0);
  // A selected span is outlined, too, however narrow it is, because the user looks for it after a
  // jump.
  if (model.selected.kind == Finding::Kind::idle || model.selected.kind == Finding::Kind::span)
    outline(model.selected, 2, painter.px(least_outline));
}

}  // namespace lockstep::viz
