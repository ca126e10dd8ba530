// TimelineView: the choice of rows, and the controls above their names.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "viz/views/button.h"
#include "viz/views/imgui_shim.h"
#include "viz/views/timeline_view.h"
#include "viz/views/tip.h"

namespace lockstep::viz {
namespace {

constexpr std::chrono::milliseconds compare_budget{4};          // per frame
constexpr std::chrono::milliseconds patient_budget{3'600'000};  // for pictures
constexpr float inset = 10;
constexpr float filter_width = 108;
constexpr float text_inset = 6;

}  // namespace

void TimelineView::lay_out(const Painter& painter, const Frame& frame, Model& model) {
  const float scale = painter.look().scale, height = frame.lanes.height();
  if (compared_) return layout_.update(model.timeline, height, scale, {.places = model.places});
  const Straggler* straggler = model.straggler();
  const int slow = straggler ? straggler->rank : -1;
  const RowContext context{model.places, &model.alike.leaders(), slow};
  layout_.update(model.timeline, height, scale, context);
  if (!layout_.folds()) {
    model.alike.clear();
    return;
  }
  const std::int64_t version = model.alike.version();
  model.alike.update(model.timeline, model.likeness,
                     foldable_groups(model.timeline, model.places, layout_.choices(), slow),
                     model.patient ? patient_budget : compare_budget);
  if (model.alike.version() != version) layout_.update(model.timeline, height, scale, context);
}

void TimelineView::toggle_folding() {
  RowChoices& choices = layout_.choices();
  const bool on = layout_.folds() && choices.unfolded.empty();
  choices.fold = on ? RowChoices::Fold::off : RowChoices::Fold::on;
  choices.unfolded.clear();
}

void TimelineView::next_axis(const Model& model) {
  RowChoices& choices = layout_.choices();
  const auto& axes = model.places.axes();
  choices.folded.clear();
  const auto now = choices.axis ? std::ranges::find(axes, *choices.axis) : axes.end();
  if (!choices.axis || now == axes.end())
    choices.axis = axes.empty() ? std::nullopt : std::optional{axes.front()};
  else
    choices.axis = now + 1 == axes.end() ? std::nullopt : std::optional{*(now + 1)};
}

void TimelineView::take_row_keys(const Frame& frame, Model& model) {
  const bool shift = ImGui::GetIO().KeyShift;
  if (key_pressed(keys::c, false)) layout_.toggle_all();
  const RankGroup* under = layout_.group_at(layout_y(frame, ImGui::GetIO().MousePos.y));
  if (key_pressed(keys::t, false) && under) layout_.pin(under->rank->rank);
  if (key_pressed(keys::h, false)) {
    if (shift) {
      layout_.show_all();
    } else if (under) {
      layout_.hide(under->rank->rank);
    }
  }
  if (compared_) return;
  if (key_pressed(keys::i, false)) toggle_folding();
  if (key_pressed(keys::o, false)) next_axis(model);
  if (key_pressed(keys::f, false) && shift) filters_ = opens_filter_ = true;
}

void TimelineView::draw_row_controls(const Painter& painter, const Frame& frame, Model& model) {
  if (model.timeline.ranks().size() < 2) return;
  RowChoices& choices = layout_.choices();
  const float left = frame.names.left + painter.px(inset);
  ButtonRow row{painter,
                {frame.names.left, frame.overview.top, frame.names.right, frame.overview.bottom},
                left};
  const std::string tolerance = fmt::format("{:.3g} %", 100 * model.likeness.duration);
  if (row.button("I  Fold", layout_.folds(),
                 "one row for identical ranks: " + likeness_words(model.likeness)))
    toggle_folding();
  if (layout_.folds() &&
      row.button(tolerance, false,
                 "the tolerance; identical ranks have " + likeness_words(model.likeness)))
    model.likeness.duration = next_tolerance(model.likeness.duration);
  if (!model.places.empty() &&
      row.button(choices.axis ? fmt::format("O  By {}", name_of(*choices.axis)) : "O  Group",
                 choices.axis.has_value(), "group the rows by the next axis of the mesh"))
    next_axis(model);
  draw_filter(painter, {left, frame.axis.top, frame.names.right, frame.axis.bottom}, model);
}

void TimelineView::draw_filter(const Painter& painter, const Rect& rect, Model& model) {
  RowChoices& choices = layout_.choices();
  const Look& look = painter.look();
  const float width = painter.px(filter_width);
  const Rect box{rect.left, rect.top + painter.px(1), rect.left + width,
                 rect.bottom - painter.px(2)};
  const float text_top = (box.top + box.bottom - size_of(look.small)) / 2;
  if (!filters_) {
    ImGui::SetCursorScreenPos(box.min());
    if (ImGui::InvisibleButton("filter", {box.width(), box.height()}))
      filters_ = opens_filter_ = true;
    painter.fill(box, ImGui::IsItemHovered() ? palette.button_hovered : palette.button,
                 painter.px(4));
    const std::string words = choices.filter_text.empty() ? "filter rows" : choices.filter_text;
    painter.text(box.left + painter.px(text_inset), text_top,
                 painter.fitted(words, look.small, width - 2 * painter.px(text_inset)),
                 choices.filter_text.empty() ? palette.text_faint : palette.text, look.small);
  } else {
    ImGui::PushFont(look.small);
    ImGui::PushStyleVar(
        ImGuiStyleVar_FramePadding,
        {painter.px(text_inset), std::max(0.0f, (box.height() - ImGui::GetFontSize()) / 2)});
    ImGui::SetCursorScreenPos(box.min());
    ImGui::SetNextItemWidth(width);
    if (opens_filter_) ImGui::SetKeyboardFocusHere();
    std::array<char, 128> text{};
    choices.filter_text.copy(text.data(), text.size() - 1);
    const bool entered = ImGui::InputTextWithHint(
        "##rows", "5, pp:0, send", text.data(), text.size(), ImGuiInputTextFlags_EnterReturnsTrue);
    const bool escaped = key_pressed(keys::escape, false);
    const bool left_it = !opens_filter_ && !entered && ImGui::IsItemDeactivated();
    if (escaped) text.fill(0);
    if (choices.filter_text != text.data()) {
      choices.filter_text = text.data();
      choices.filter = RowFilter{choices.filter_text};
    }
    if (entered || escaped || left_it) filters_ = false;
    opens_filter_ = false;
    ImGui::PopStyleVar();
    ImGui::PopFont();
  }
  const std::string trouble = choices.filter.trouble(model.places);
  if (!trouble.empty())
    draw_tip(Painter{ImGui::GetForegroundDrawList(), look}, box, {trouble}, palette.trouble);
  const std::size_t rows = layout_.groups().size();
  const std::string count =
      rows == layout_.shown() && choices.filter.empty()
          ? fmt::format("{} ranks", rows)
          : fmt::format("{} in {} row{}", layout_.shown(), rows, rows == 1 ? "" : "s");
  painter.text(
      rect.right - painter.px(inset), text_top,
      painter.fitted(count, look.small, rect.right - box.right - painter.px(inset + 4)),
      !choices.filter.empty() && layout_.shown() == 0 ? palette.trouble : palette.text_faint,
      look.small, Align::right);
}

void TimelineView::draw_headings(const Painter& painter, const Frame& frame,
                                 const Model& model) const {
  const RowChoices& choices = layout_.choices();
  if (!choices.axis) return;
  const Look& look = painter.look();
  const std::string axis = name_of(*choices.axis);
  for (const RowHeading& heading : layout_.headings()) {
    const float top = screen_y(frame, heading.top);
    const Rect row{frame.names.left, top, frame.lanes.right, top + heading.height};
    if (row.bottom < frame.names.top || row.top > frame.names.bottom) continue;
    painter.fill({row.left + painter.px(inset), row.top, row.right, row.bottom},
                 row.contains(ImGui::GetIO().MousePos) ? palette.button_hovered : palette.button,
                 painter.px(3));
    const float middle = (row.top + row.bottom) / 2, size = painter.px(3.5f);
    const float x = row.left + painter.px(inset + 8);
    if (heading.folded)
      painter.list()->AddTriangleFilled({x - size / 2, middle - size}, {x + size, middle},
                                        {x - size / 2, middle + size}, palette.text_dim);
    else
      painter.list()->AddTriangleFilled({x - size, middle - size / 2},
                                        {x + size, middle - size / 2}, {x, middle + size},
                                        palette.text_dim);
    std::string words =
        heading.coordinate < 0 ? "not on " + axis : fmt::format("{} {}", axis, heading.coordinate);
    words += fmt::format(" · {} rank{}", heading.ranks, heading.ranks == 1 ? "" : "s");
    const Straggler* straggler = model.straggler();
    if (straggler && model.places.coordinate(straggler->rank, *choices.axis) == heading.coordinate)
      words += " · " + straggler_name(*straggler);
    painter.text(row.left + painter.px(inset + 18), middle - size_of(look.small) / 2, words,
                 palette.text_dim, look.small);
  }
}

void TimelineView::draw_row_drag(const Painter& painter, const Frame& frame) const {
  if (drag_ != Drag::row || !dragged_ || dragged_rank_ < 0 || !ImGui::IsMouseDown(0)) return;
  const RankGroup* target = layout_.group_at(layout_y(frame, ImGui::GetIO().MousePos.y));
  if (!target) return;
  const float y = screen_y(frame, target->top) - painter.px(2);
  painter.line(frame.names.left, y, frame.lanes.right, y, palette.accent, painter.px(2));
  painter.text(frame.names.left + painter.px(26), y - size_of(painter.look().small) - painter.px(2),
               fmt::format("rank {}", dragged_rank_), palette.accent, painter.look().small);
}

void TimelineView::drop_row(const Frame& frame, const Model& model) {
  if (dragged_rank_ < 0) return;
  const float y = layout_y(frame, ImGui::GetIO().MousePos.y);
  const RankGroup* target = layout_.group_at(y);
  const bool below = !layout_.groups().empty() &&
                     y >= layout_.groups().back().top + layout_.groups().back().height;
  if (!target && !below) return;
  layout_.choices().move(dragged_rank_, target ? target->rank->rank : -1, model.timeline);
}

}  // namespace lockstep::viz
