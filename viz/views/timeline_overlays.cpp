// TimelineView: what is drawn over the boxes: open spans, messages and the gap under the cursor.
#include <algorithm>
#include <cmath>

#include "viz/views/timeline_view.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t most_arrows = 300;  // more would cover everything
constexpr float arrow_size = 4.5f;
constexpr std::size_t most_open = 64;  // in a run, a lane has at most 8
constexpr float least_open = 6;        // minimum width in pixels of an open span

}  // namespace

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
    painter.hatch(at, faded(colours::trouble, 0.5f));
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
    if (!strip.shows(finding.lane) || strip.kind == StripKind::kernels) continue;
    Rect at = place(frame, strip);
    at.left = std::max(at.left, frame.x(static_cast<double>(finding.span.start)));
    at.right = std::min(at.right, frame.x(static_cast<double>(finding.span.end)));
    painter.frame(at, faded(colours::highlight, 0.8f), 0, painter.px(1));
  }
}

}  // namespace lockstep::viz
