#include "viz/views/retime_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "viz/data/step/words.h"
#include "viz/views/button.h"
#include "viz/views/panel_card.h"
#include "viz/views/paragraph.h"
#include "viz/views/slider.h"
#include "viz/views/tip.h"

namespace lockstep::viz {
namespace {

constexpr float sliders_share = 0.5f;  // of the card's width
constexpr float gap = 14;
constexpr float column_gap = 10;    // between the two columns of sliders
constexpr float slider_gap = 2;     // between their rows
constexpr float number_width = 66;  // width of the combo box that chooses a rank or a stage
constexpr float time_width = 60;    // of a column of times
constexpr float bars_width = 90;    // of the bars beside them, at most
constexpr float least_bars = 16;    // narrower ones are left out
constexpr float row_gap = 4;
constexpr float words_gap = 6;  // between the words above a slider

/// The colour of a part of the critical path, which shares() names.
ImU32 colour_of_share(const std::string& what) {
  if (what.ends_with(" transfer")) return palette.communication;
  if (what.ends_with(" latency")) return palette.message | IM_COL32_A_MASK;
  for (int c = 0; c < category_count; ++c)
    if (what == name_of(static_cast<Category>(c))) return colour_of(static_cast<Category>(c));
  return palette.kernel;
}

}  // namespace

void RetimeView::draw(const Painter& painter, const Rect& rect, Model& model) {
  Retiming& retiming = model.retiming;
  const bool possible = retiming.found();
  if (possible) {
    retiming.update();
    retiming.ask(changes_of(sliders_));
  }
  const Retiming::Results& results = retiming.results();
  if (sliders_.size() != results.sliders.size()) {
    sliders_ = results.sliders;
    if (const Straggler* straggler = model.straggler()) choose_rank(straggler->rank);
  }
  if (!sliders_.empty() && model.view.wanted_pace) {
    const auto [rank, factor] = *std::exchange(model.view.wanted_pace, std::nullopt);
    for (RetimeSlider& each : sliders_) {
      each.set_notch(0);
      if (each.what == "rank") each.set_rank(rank, factor);
    }
  }
  const Rect inside = panel_card(
      painter, rect, Panel::retime,
      sliders_.empty() ? "" : fmt::format("step {}, {} ranks", results.step, results.ranks), model);
  if (sliders_.empty()) {
    const bool failed = possible && !results.trouble.empty();
    paragraph(painter, inside,
              !possible ? nothing_to_retime(model.timeline.run(), model.source.live)
              : failed  ? results.trouble
                        : "Reading and replaying the operations ...",
              failed ? palette.trouble : palette.text_dim);
    return;
  }
  const float middle = inside.left + sliders_share * inside.width();
  draw_sliders(painter, {inside.left, inside.top, middle, inside.bottom});
  draw_times(painter, {middle + painter.px(gap), inside.top, inside.right, inside.bottom},
             retiming);
}

void RetimeView::choose_rank(int rank) {
  for (RetimeSlider& each : sliders_) {
    const auto found = std::ranges::find(each.numbers, rank);
    if (each.what == "rank" && found != each.numbers.end())
      each.chosen = static_cast<std::size_t>(found - each.numbers.begin());
  }
}

void RetimeView::draw_sliders(const Painter& painter, const Rect& rect) {
  const Look& look = painter.look();
  const float between = painter.px(column_gap);
  const float width = (rect.width() - between) / 2;
  const auto left = [&](std::size_t column) {
    return rect.left + static_cast<float>(column) * (width + between);
  };
  const float slower =
      painter.text(rect.left, rect.top, "← slower", palette.text_faint, look.small);
  const float faster =
      painter.text(rect.right, rect.top, "faster →", palette.text_faint, look.small, Align::right);
  constexpr const char* unmoved = "1×: as recorded";
  if (painter.text_width(unmoved, look.small) + 2 * std::max(slower, faster) +
          painter.px(2 * gap) <=
      rect.width())
    painter.text((rect.left + rect.right) / 2, rect.top, unmoved, palette.text_faint, look.small,
                 Align::centre);
  const float top = rect.top + size_of(look.small) + painter.px(row_gap);
  ImGui::PushFont(look.small);
  ImGui::SetCursorScreenPos({rect.left, top});
  ImGui::PushStyleColor(ImGuiCol_ChildBg, 0);
  ImGui::BeginChild("##sliders", {rect.width(), rect.bottom - top});
  ImGui::PopStyleColor();
  const Painter inner{ImGui::GetWindowDrawList(), look};
  const ImVec2 start = ImGui::GetCursorScreenPos();
  // A bar that scrolls covers the second column's end, unless that column is narrower.
  const float covered = rect.width() - ImGui::GetContentRegionAvail().x;
  const float height = slider_height(painter) + painter.px(slider_gap);
  tracks_.clear();
  for (std::size_t i = 0; i < sliders_.size(); ++i) {
    const float y = start.y + static_cast<float>(i / 2) * height;
    const float right = left(i % 2) + width - (i % 2 == 1 ? covered : 0);
    ImGui::PushID(static_cast<int>(i));
    draw_slider(inner, {left(i % 2), y, right, y + slider_height(painter)}, sliders_[i]);
    ImGui::PopID();
  }
  ImGui::EndChild();
  ImGui::PopFont();
}

void RetimeView::draw_slider(const Painter& painter, const Rect& rect, RetimeSlider& slider) {
  const Look& look = painter.look();
  const Rect track{rect.left, rect.bottom - slider_track_height(painter), rect.right, rect.bottom};
  tracks_.push_back(slider_range(painter, track));
  constexpr int most = RetimeSlider::most_notches;
  float position = 0.5f + static_cast<float>(slider.notch) / (2 * most);
  if (slider_track(painter, "##pace", track, position, 0.5f))
    slider.set_notch(static_cast<int>(std::lround((2 * position - 1) * most)));
  const bool moved = slider.notch != 0;
  const bool hovered = ImGui::IsItemHovered() || ImGui::IsItemActive();
  const std::string factor = slider.factor();
  float left = rect.left;
  if (!slider.numbers.empty()) {
    const float beside =
        rect.width() - painter.text_width(factor, look.small) - painter.px(row_gap);
    const float width = std::min(painter.px(number_width), beside);
    ImGui::SetCursorScreenPos(rect.min());
    choose_number(painter, slider, width);
    left += width + painter.px(row_gap);
  }
  // The longest words that fit. The knob shows the direction, too, and that nothing is moved.
  const std::string name = slider.numbers.empty() ? slider.name : "compute";
  const float room = rect.right - left - painter.px(words_gap);
  const float of_name = painter.text_width(name, look.small);
  const auto fits = [&](const std::string& pace) {
    return of_name + painter.text_width(pace, look.small) <= room;
  };
  const std::string pace = fits(slider.pace()) ? slider.pace() : factor;
  const bool both = fits(pace);
  draw_slider_words(painter, {left, rect.top, rect.right, rect.bottom},
                    {.label = both || slider.numbers.empty() ? name : "",
                     .value = both || moved || !slider.numbers.empty() ? pace : "",
                     .emphasised = moved});
  if (hovered && pace != slider.pace())
    tip_outside(
        painter, rect, rect, true,
        {slider.numbers.empty() ? fmt::format("{}: {}", name, slider.pace())
                                : fmt::format("{} {}, compute: {}", slider.name,
                                              slider.numbers[slider.chosen], slider.pace())});
}

void RetimeView::choose_number(const Painter& painter, RetimeSlider& slider, float width) {
  const auto words = [&](std::size_t index) {
    return fmt::format("{} {}", slider.name, slider.numbers[index]);
  };
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {painter.px(4), 0});
  ImGui::SetNextItemWidth(width);
  const bool open =
      ImGui::BeginCombo("##number", words(slider.chosen).c_str(), ImGuiComboFlags_NoArrowButton);
  ImGui::PopStyleVar();
  if (!open) return;
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(slider.numbers.size()));
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
      const auto index = static_cast<std::size_t>(i);
      if (ImGui::Selectable(words(index).c_str(), index == slider.chosen)) slider.chosen = index;
    }
  }
  ImGui::EndCombo();
}

void RetimeView::draw_times(const Painter& painter, const Rect& rect, const Retiming& retiming) {
  const Look& look = painter.look();
  const Retiming::Results& results = retiming.results();
  const float line = size_of(look.small) + painter.px(row_gap);
  if (!results.trouble.empty()) {
    paragraph(painter, rect, results.trouble, palette.trouble);
    return;
  }
  if (!results.changes) return;
  const Picoseconds before = results.recorded.time, after = results.changed.time;
  const Scale scale = Scale::durations(static_cast<double>(std::max(before, after)));
  const std::string times = fmt::format("{} → {}", scale(before), scale(after));
  const float y = rect.top + painter.px(2);
  const float x = rect.left + painter.text(rect.left, y, times, palette.text, look.body);
  std::string note = retiming.busy() ? "replaying ..." : "";
  if (!retiming.busy() && before > 0)
    note = "ratio " + ratio_words(static_cast<double>(after) / static_cast<double>(before));
  const float note_x = x + painter.px(gap);
  const bool beside = note_x + painter.text_width(note, look.small) <= rect.right;
  const float note_y = y + size_of(look.body) + (beside ? -size_of(look.small) : painter.px(4));
  painter.text(beside ? note_x : rect.left, note_y, note, palette.text_dim, look.small);
  const float top = rect.top + size_of(look.body) + painter.px(10) + (beside ? 0 : line);
  float bottom = rect.bottom;
  if (std::ranges::any_of(sliders_, [](const RetimeSlider& each) { return each.notch != 0; })) {
    bottom -= painter.px(28);
    ButtonRow row{painter, {rect.left, bottom, rect.right, rect.bottom}, rect.left};
    if (row.button("reset", false, "set all sliders back"))
      for (RetimeSlider& each : sliders_) each.set_notch(0);
  }
  if (!results.choices.empty()) {
    const std::string kept = fmt::format("kept as recorded: {}", list_words(results.choices));
    bottom -= line;
    painter.text(rect.left, bottom, painter.fitted(kept, look.small, rect.width()),
                 palette.text_dim, look.small);
  }
  draw_shares(painter, {rect.left, top, rect.right, bottom}, results);
}

void RetimeView::draw_shares(const Painter& painter, const Rect& rect,
                             const Retiming::Results& results) const {
  const Look& look = painter.look();
  const auto shares = compared_shares(results.recorded, results.changed);
  Picoseconds longest = 1;
  for (const ComparedShare& each : shares)
    longest = std::max({longest, each.recorded, each.changed});
  const float line = size_of(look.small) + painter.px(row_gap);
  const float changed = rect.right, recorded = changed - painter.px(time_width);
  const float bars_end = recorded - painter.px(time_width);
  float names = 0;
  for (const ComparedShare& each : shares)
    names = std::max(names, painter.text_width(beginning(each.what), look.small));
  names = std::min(names + painter.px(8), bars_end - rect.left);
  const Rect bars{std::max(rect.left + names, bars_end - painter.px(bars_width)), rect.top,
                  bars_end, rect.bottom};
  const auto cell = [&](float right, float y, const std::string& words, ImU32 colour) {
    painter.text(right, y, words, colour, look.small, Align::right);
  };
  float y = rect.top;
  painter.text(rect.left, y, painter.fitted("critical path", look.small, names), palette.text_faint,
               look.small);
  cell(recorded, y, "recorded", palette.text_faint);
  cell(changed, y, "changed", palette.text_faint);
  y += line;
  const std::size_t room = whole_number((rect.bottom - y) / line);
  for (std::size_t i = 0; i < shares.size() && i < room; ++i, y += line) {
    const auto& [what, before, after] = shares[i];
    if (i + 1 == room && shares.size() > room) {
      painter.text(rect.left, y, fmt::format("and {} smaller ones", shares.size() - i),
                   palette.text_faint, look.small);
      return;
    }
    painter.text(rect.left, y, painter.fitted(what, look.small, names), palette.text_dim,
                 look.small);
    const float half = size_of(look.small) / 2;
    const auto bar = [&](Picoseconds time, float top, ImU32 colour) {
      const float share = static_cast<float>(time) / static_cast<float>(longest);
      painter.fill({bars.left, top, bars.left + bars.width() * share, top + half}, colour);
    };
    if (bars.width() >= painter.px(least_bars)) {
      bar(before, y, faded(colour_of_share(what), 0.45f));
      bar(after, y + half, colour_of_share(what));
    }
    cell(recorded, y, duration_words(before), palette.text_dim);
    cell(changed, y, duration_words(after), before == after ? palette.text_dim : palette.text);
  }
}

}  // namespace lockstep::viz
