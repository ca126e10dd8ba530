// TimelineView: additions to the timelines of two runs that are compared.
#include <algorithm>

#include "viz/views/timeline_view.h"

namespace lockstep::viz {
namespace {

constexpr float step_back = 0.55f;  // opacity of the layer that dims other steps
constexpr float mark_width = 3;
constexpr float dash = 4;
constexpr float beside_line = 5;
constexpr float names_left = 26, names_right = 10;  // from the edges of the column of names

}  // namespace

void TimelineView::draw_compared(const Painter& painter, const Frame& frame) const {
  const Rect& lanes = frame.lanes;
  const auto inside = [&](Picoseconds time) {
    return std::clamp(frame.x(static_cast<double>(time)), lanes.left, lanes.right);
  };
  const float left = inside(compared_->step.start), right = inside(compared_->step.end);
  const ImU32 cover = faded(palette.background, step_back);
  painter.fill({lanes.left, lanes.top, left, lanes.bottom}, cover);
  painter.fill({right, lanes.top, lanes.right, lanes.bottom}, cover);
  painter.line(left, lanes.top, left, lanes.bottom, palette.text_dim);
  painter.line(right, lanes.top, right, lanes.bottom, palette.text_dim);
  const float other = frame.x(static_cast<double>(compared_->other_end));
  if (other < lanes.left || other > lanes.right || compared_->other_words.empty()) return;
  const float length = painter.px(dash);
  for (float y = lanes.top; y < lanes.bottom; y += 2 * length)
    painter.line(other, y, other, std::min(y + length, lanes.bottom), palette.modelled_clock,
                 painter.px(1.5f));
  const Look& look = painter.look();
  const float width = painter.text_width(compared_->other_words, look.small);
  const float away = painter.px(beside_line);
  const bool right_of_it = other + width + 3 * away < lanes.right;
  const float x = right_of_it ? other + 2 * away : other - 2 * away - width;
  const float y = lanes.bottom - size_of(look.small) - away;
  painter.label({x - away, y - away / 2, x + width + away, y + size_of(look.small) + away / 2},
                {x, y}, compared_->other_words, palette.tip, palette.modelled_clock, look.small);
}

bool TimelineView::has_note_below(const Painter& painter, const Rect& strip) const {
  const Look& look = painter.look();
  return compared_ && strip.height() >= size_of(look.bold) + size_of(look.small);
}

void TimelineView::draw_note(const Painter& painter, const Frame& frame, const RankGroup& group,
                             const Rect& strip) const {
  const auto found = compared_->notes.find(group.rank->rank);
  if (found == compared_->notes.end()) return;
  const Look& look = painter.look();
  const auto& [words, brief, marked] = found->second;
  const ImU32 colour = marked ? palette.accent : palette.text_faint;
  const float middle = (strip.top + strip.bottom) / 2;
  const float left = frame.names.left + painter.px(names_left);
  const float right = frame.names.right - painter.px(names_right);
  if (has_note_below(painter, strip)) {
    painter.text(left, middle + (size_of(look.bold) - size_of(look.small)) / 2,
                 painter.fitted(words, look.small, right - left), colour, look.small);
  } else {
    const float name = painter.text_width(group.rank->name, look.bold) + painter.px(beside_line);
    painter.text(right, middle - size_of(look.small) / 2,
                 painter.fitted(brief, look.small, right - left - name), colour, look.small,
                 Align::right);
  }
}

void TimelineView::draw_rank_marks(const Painter& painter, const Frame& frame) const {
  painter.list()->PushClipRect(frame.names.min(), {frame.lanes.right, frame.names.bottom}, true);
  for (const RankGroup& group : layout_.groups()) {
    const auto note = compared_->notes.find(group.rank->rank);
    if (note == compared_->notes.end() || !note->second.marked) continue;
    const float top = screen_y(frame, group.top);
    painter.fill({frame.lanes.left - painter.px(mark_width) - 1, top, frame.lanes.left - 1,
                  top + group.height},
                 palette.accent);
  }
  painter.list()->PopClipRect();
}

}  // namespace lockstep::viz
