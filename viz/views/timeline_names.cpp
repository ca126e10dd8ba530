// TimelineView: the names of ranks and lanes, to the left of the strips.
#include <fmt/format.h>

#include <utility>

#include "viz/data/mean_step.h"
#include "viz/data/words.h"
#include "viz/views/timeline_view.h"

namespace lockstep::viz {
namespace {

constexpr const char* pin_words = "pin";
constexpr const char* hide_words = "hide";
constexpr float edge = 10;
constexpr float button_gap = 10;

}  // namespace

void TimelineView::draw_names(const Painter& painter, const Frame& frame, const Model& model,
                              bool pinned) const {
  const Look& look = painter.look();
  const float right = frame.names.right - painter.px(edge);
  for (const RankGroup& group : layout_.groups()) {
    const float top = screen_y(frame, group.top);
    if (group.pinned != pinned || top + group.height < frame.names.top || top > frame.names.bottom)
      continue;
    draw_name(painter, frame, model, group);
    for (std::size_t i = group.first + 1; i < group.first + group.count; ++i) {
      const Strip& strip = layout_.strips()[i];
      const Rect at = place(frame, strip);
      const float height = size_of(look.small);
      if (strip.height < height * 0.8f) continue;
      const bool kernels = strip.kind == StripKind::kernels && strip.lanes.front()->is_compute();
      painter.text(right, (at.top + at.bottom - height) / 2, kernels ? "kernels" : strip.name(),
                   strip.shows(model.hovered.lane) ? colours::text : colours::text_faint,
                   look.small, Align::right);
    }
  }
  if (!pinned) draw_hidden(painter, frame);
}

void TimelineView::draw_name(const Painter& painter, const Frame& frame, const Model& model,
                             const RankGroup& group) const {
  const Look& look = painter.look();
  const Rect header = place(frame, layout_.strips()[group.first]);
  const float middle = (header.top + header.bottom) / 2;
  // A triangle shows whether the rank is expanded or collapsed.
  const float size = painter.px(3.5f);
  const float x = frame.names.left + painter.px(17);
  if (group.collapsed) {
    painter.list()->AddTriangleFilled({x - size / 2, middle - size}, {x + size, middle},
                                      {x - size / 2, middle + size}, colours::text_faint);
  } else {
    painter.list()->AddTriangleFilled({x - size, middle - size / 2}, {x + size, middle - size / 2},
                                      {x, middle + size}, colours::text_faint);
  }
  const float name_middle =
      middle - (has_note_below(painter, header) ? size_of(look.small) / 2 : 0);
  painter.text(frame.names.left + painter.px(26), name_middle - size_of(look.bold) / 2,
               group.rank->name, group.pinned ? colours::accent : colours::text, look.bold);
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  if (mouse.x < frame.names.right && mouse.y >= header.top && mouse.y < header.bottom) {
    const NameButtons buttons = name_buttons(painter, frame, group);
    for (const auto& [rect, words] :
         {std::pair{buttons.pin, pin_words}, std::pair{buttons.hide, hide_words}}) {
      const bool lit = rect.contains(mouse) || (words == pin_words && group.pinned);
      painter.text(rect.left, middle - size_of(look.small) / 2, words,
                   lit ? colours::accent : colours::text_dim, look.small);
    }
    return;
  }
  if (compared_) return draw_note(painter, frame, group, header);
  const BubbleSeries::Point* step = model.described;
  const RankAccount* account = step ? step->account.find(group.rank->rank) : nullptr;
  std::string note;
  ImU32 colour = colours::text_faint;
  if (group.pinned) {
    note = "pinned";
  } else if (account && step->account.length > 0) {
    note = "idle " + percent_words(static_cast<double>(not_computing(account->sums)) /
                                   static_cast<double>(step->account.length));
  } else {
    note = fmt::format("{} spans", group.rank->spans);
  }
  if (group.rank->ended && group.rank->spans_written >= 0 &&
      group.rank->spans_written != group.rank->spans) {
    note = fmt::format("{}/{} spans", group.rank->spans, group.rank->spans_written);
    colour = colours::trouble;
  }
  painter.text(frame.names.right - painter.px(edge), middle - size_of(look.small) / 2, note, colour,
               look.small, Align::right);
}

TimelineView::NameButtons TimelineView::name_buttons(const Painter& painter, const Frame& frame,
                                                     const RankGroup& group) const {
  const Look& look = painter.look();
  const Rect header = place(frame, layout_.strips()[group.first]);
  const float right = frame.names.right - painter.px(edge);
  const float hide_left = right - painter.text_width(hide_words, look.small);
  const float pin_right = hide_left - painter.px(button_gap);
  const float pin_left = pin_right - painter.text_width(pin_words, look.small);
  return {{pin_left, header.top, pin_right, header.bottom},
          {hide_left, header.top, right, header.bottom}};
}

void TimelineView::draw_hidden(const Painter& painter, const Frame& frame) const {
  if (layout_.hidden().empty()) return;
  const Look& look = painter.look();
  const Rect rect = show_all_button(frame);
  const bool lit = rect.contains(ImGui::GetIO().MousePos);
  painter.list()->PushClipRect(rect.min(), rect.max());
  painter.text(rect.right - painter.px(edge), (rect.top + rect.bottom - size_of(look.small)) / 2,
               fmt::format("{} hidden: show", layout_.hidden().size()),
               lit ? colours::text : colours::accent, look.small, Align::right);
  painter.list()->PopClipRect();
}

void TimelineView::click_name(const Painter& painter, const Frame& frame) {
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  if (show_all_button(frame).contains(mouse)) return layout_.show_all();
  if (!frame.names.contains(mouse)) return;
  const RankGroup* group = layout_.group_at(layout_y(frame, mouse.y));
  if (!group) return;
  const NameButtons buttons = name_buttons(painter, frame, *group);
  const int rank = group->rank->rank;
  if (buttons.pin.contains(mouse)) {
    layout_.pin(rank);
  } else if (buttons.hide.contains(mouse)) {
    layout_.hide(rank);
  } else {
    layout_.toggle(rank);
  }
}

}  // namespace lockstep::viz
