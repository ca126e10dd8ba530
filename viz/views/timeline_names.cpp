// TimelineView: the names of ranks and lanes, to the left of the strips.
#include <fmt/format.h>

#include <utility>

#include "viz/data/step/mean_step.h"
#include "viz/data/step/words.h"
#include "viz/views/timeline_view.h"
#include "viz/views/tip.h"

namespace lockstep::viz {
namespace {

constexpr const char* pin_words = "pin";
constexpr const char* hide_words = "hide";
constexpr const char* open_words = "open";
constexpr float left_edge = 26;
constexpr std::size_t most_listed = 24;  // ranks in a tooltip
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
                   strip.shows(model.hovered.lane) ? palette.text : palette.text_faint, look.small,
                   Align::right);
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
                                      {x - size / 2, middle + size}, palette.text_faint);
  } else {
    painter.list()->AddTriangleFilled({x - size, middle - size / 2}, {x + size, middle - size / 2},
                                      {x, middle + size}, palette.text_faint);
  }
  const NameWords words = name_words(model, group);
  const bool two_lines =
      has_note_below(painter, header) ||
      (!compared_ && header.height() >= size_of(look.bold) + size_of(look.small) + painter.px(2));
  const float name_middle = middle - (two_lines ? size_of(look.small) / 2 : 0);
  const float left = frame.names.left + painter.px(left_edge);
  const float right = frame.names.right - painter.px(edge);
  const bool marked = model.view.marked_rank == group.rank->rank;
  if (marked)
    painter.frame({frame.names.left + painter.px(4), header.top, frame.names.right - painter.px(2),
                   header.bottom},
                  palette.accent, painter.px(3), painter.px(1.5f));
  const ImU32 name_colour = group.pinned || marked ? palette.accent : palette.text;
  float end = left + painter.text(left, name_middle - size_of(look.bold) / 2,
                                  painter.fitted(words.name, look.bold, right - left), name_colour,
                                  look.bold);
  if (!words.places.empty() && (!compared_ || two_lines)) {
    const std::string places = painter.fitted(" · " + words.places, look.small, right - end);
    end += painter.text(end, name_middle + size_of(look.bold) / 2 - size_of(look.small) - 1, places,
                        palette.text_dim, look.small);
  }
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  if (mouse.x < frame.names.right && mouse.y >= header.top && mouse.y < header.bottom) {
    const NameButtons buttons = name_buttons(painter, frame, group);
    const float first = buttons.open.width() > 0 ? buttons.open.left : buttons.pin.left;
    painter.fill({first - painter.px(6), header.top, frame.names.right, header.bottom},
                 palette.background);
    for (const auto& [rect, text] :
         {std::pair{buttons.open, open_words}, std::pair{buttons.pin, pin_words},
          std::pair{buttons.hide, hide_words}}) {
      if (rect.width() <= 0) continue;
      const bool lit = rect.contains(mouse) || (text == pin_words && group.pinned);
      painter.text(rect.left, middle - size_of(look.small) / 2, text,
                   lit ? palette.accent : palette.text_dim, look.small);
    }
    if (!compared_) draw_name_tip(painter, header, model, group);
    return;
  }
  if (compared_) return draw_note(painter, frame, group, header);
  if (two_lines) {
    painter.text(left, name_middle + size_of(look.bold) / 2,
                 painter.fitted(words.note, look.small, right - left), words.colour, look.small);
  } else if (painter.text_width(words.note, look.small) <= right - end - painter.px(8)) {
    painter.text(right, middle - size_of(look.small) / 2, words.note, words.colour, look.small,
                 Align::right);
  } else if (painter.text_width(words.brief, look.small) <= right - end - painter.px(4)) {
    painter.text(right, middle - size_of(look.small) / 2, words.brief, words.colour, look.small,
                 Align::right);
  }
}

TimelineView::NameWords TimelineView::name_words(const Model& model, const RankGroup& group) const {
  NameWords words;
  words.name = group.rank->name;
  words.colour = palette.text_faint;
  if (group.alike.empty()) {
    words.places = model.places.words(group.rank->rank);
  } else {
    std::vector<int> ranks{group.rank->rank};
    for (const std::size_t index : group.alike)
      ranks.push_back(model.timeline.ranks()[index]->rank);
    words.name = fmt::format("{} ranks", ranks.size());
    words.places = model.places.words(ranks);
  }
  const BubbleSeries::Point* step = model.described;
  const RankAccount* account = step ? step->account.find(group.rank->rank) : nullptr;
  if (group.rank->ended && group.rank->spans_written >= 0 &&
      group.rank->spans_written != group.rank->spans) {
    words.note = fmt::format("{}/{} spans", group.rank->spans, group.rank->spans_written);
    words.colour = palette.trouble;
  } else if (const Straggler* slow = model.straggler(); slow && slow->rank == group.rank->rank) {
    words.brief = duration_words(slow->cost());
    words.note = (slow->stage >= 0 ? "slow stage, " : "straggler, ") + words.brief;
    words.colour = palette.trouble;
  } else if (group.pinned) {
    words.note = "pinned";
  } else if (account && step->account.length > 0) {
    words.brief = percent_words(static_cast<double>(not_computing(account->sums)) /
                                static_cast<double>(step->account.length));
    words.note = "idle " + words.brief;
  } else {
    words.note = fmt::format("{} spans", group.rank->spans);
  }
  return words;
}

void TimelineView::draw_name_tip(const Painter& painter, const Rect& rect, const Model& model,
                                 const RankGroup& group) const {
  std::vector<std::string> lines;
  const std::string places = model.places.words(group.rank->rank);
  lines.push_back(group.rank->name + (places.empty() ? "" : " · " + places));
  if (const Straggler* slow = model.straggler(); slow && slow->rank == group.rank->rank)
    lines.push_back(straggler_words(*slow));
  if (!group.alike.empty()) {
    std::string ranks;
    for (std::size_t i = 0; i < group.alike.size() && i < most_listed; ++i)
      ranks +=
          fmt::format("{}{}", i == 0 ? "" : ", ", model.timeline.ranks()[group.alike[i]]->rank);
    if (group.alike.size() > most_listed)
      ranks += fmt::format(" and {} more", group.alike.size() - most_listed);
    lines.push_back(fmt::format("identical in the whole run, and not shown: rank{} {}",
                                group.alike.size() == 1 ? "" : "s", ranks));
    lines.push_back(likeness_words(model.alike.likeness()));
  }
  lines.emplace_back("click: its lanes; drag: move the row; right click: menu");
  draw_tip(Painter{ImGui::GetForegroundDrawList(), painter.look()}, rect.top - painter.px(4),
           rect.bottom + painter.px(4), lines, palette.accent);
}

TimelineView::NameButtons TimelineView::name_buttons(const Painter& painter, const Frame& frame,
                                                     const RankGroup& group) const {
  const Look& look = painter.look();
  const Rect header = place(frame, layout_.strips()[group.first]);
  const float right = frame.names.right - painter.px(edge);
  const float hide_left = right - painter.text_width(hide_words, look.small);
  const float pin_right = hide_left - painter.px(button_gap);
  const float pin_left = pin_right - painter.text_width(pin_words, look.small);
  NameButtons buttons{{pin_left, header.top, pin_right, header.bottom},
                      {hide_left, header.top, right, header.bottom},
                      {}};
  if (!group.alike.empty()) {
    const float open_right = pin_left - painter.px(button_gap);
    buttons.open = {open_right - painter.text_width(open_words, look.small), header.top, open_right,
                    header.bottom};
  }
  return buttons;
}

void TimelineView::draw_hidden(const Painter& painter, const Frame& frame) const {
  if (layout_.hidden().empty()) return;
  const Look& look = painter.look();
  const Rect rect = show_all_button(frame);
  const bool lit = rect.contains(ImGui::GetIO().MousePos);
  painter.list()->PushClipRect(rect.min(), rect.max());
  painter.text(rect.right - painter.px(edge), (rect.top + rect.bottom - size_of(look.small)) / 2,
               fmt::format("{} hidden: show", layout_.hidden().size()),
               lit ? palette.text : palette.accent, look.small, Align::right);
  painter.list()->PopClipRect();
}

void TimelineView::click_name(const Painter& painter, const Frame& frame, const Model& model) {
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  if (show_all_button(frame).contains(mouse)) return layout_.show_all();
  if (!frame.names.contains(mouse)) return;
  const float y = layout_y(frame, mouse.y);
  if (const RowHeading* heading = layout_.heading_at(y)) {
    std::set<int>& folded = layout_.choices().folded;
    if (!folded.insert(heading->coordinate).second) folded.erase(heading->coordinate);
    return;
  }
  const RankGroup* group = layout_.group_at(y);
  if (!group) return;
  const NameButtons buttons = name_buttons(painter, frame, *group);
  const int rank = group->rank->rank;
  if (buttons.pin.contains(mouse)) {
    layout_.pin(rank);
  } else if (buttons.hide.contains(mouse)) {
    layout_.hide(rank);
  } else if (buttons.open.width() > 0 && buttons.open.contains(mouse)) {
    layout_.toggle_alike(*group, model.timeline);
  } else {
    layout_.toggle(rank);
  }
}

}  // namespace lockstep::viz
