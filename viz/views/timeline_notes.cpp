// TimelineView: the user's notes, and the menu of the object under the cursor.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "viz/data/window/copied_text.h"
#include "viz/views/imgui_shim.h"
#include "viz/views/timeline_view.h"
#include "viz/views/tip.h"

namespace lockstep::viz {
namespace {

constexpr float flag_size = 5;
constexpr float widest_note = 220;  // of the text beside a flag
constexpr float near_flag = 6;      // pixels from a flag to the cursor
constexpr float box_width = 320;

}  // namespace

TimelineView::Place TimelineView::place_under_cursor(const Frame& frame, const Model& model) const {
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  Place place{.finding = model.hovered};
  if (const RankGroup* group = layout_.group_at(layout_y(frame, mouse.y)))
    place.rank = group->rank->rank;
  if (frame.lanes.contains(mouse) && place.rank >= 0)
    place.time = static_cast<Picoseconds>(frame.time(mouse.x));
  // A note near the cursor takes precedence over the time under it.
  const auto near =
      static_cast<Picoseconds>(static_cast<double>(near_flag) / frame.pixels_per_picosecond);
  if (place.time)
    if (const Note* note = model.notes.find(place.rank, *place.time, near)) place.time = note->at;
  return place;
}

void TimelineView::draw_notes(const Painter& painter, const Frame& frame,
                              const Model& model) const {
  const Look& look = painter.look();
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  for (const Note& note : model.notes.notes) {
    const auto at = place(frame, note.rank, {note.at, note.at});
    if (!at || at->top > frame.lanes.bottom || at->bottom < frame.lanes.top) continue;
    const float x = at->left, size = painter.px(flag_size);
    painter.line(x, at->top, x, at->bottom, palette.mark, painter.px(1.5f));
    painter.list()->AddTriangleFilled({x, at->top}, {x + 1.6f * size, at->top + size},
                                      {x, at->top + 2 * size}, palette.mark);
    const bool hovered =
        mouse.y >= at->top && mouse.y < at->bottom && std::abs(mouse.x - x) < painter.px(near_flag);
    const std::string words =
        hovered ? note.text : painter.fitted(note.text, look.small, painter.px(widest_note));
    const float left = x + 2 * size;
    const float width = painter.text_width(words, look.small) + painter.px(8);
    const Rect label{left, at->top, left + width, at->top + size_of(look.small) + painter.px(3)};
    if (label.height() > at->height() + painter.px(4) && !hovered) continue;
    painter.fill(label, faded(palette.tip, 0.9f), painter.px(3));
    painter.frame(label, palette.mark, painter.px(3));
    painter.text(label.left + painter.px(4), label.top + painter.px(1), words, palette.text,
                 look.small);
  }
}

void TimelineView::draw_menu(const Painter& painter, Model& model) {
  if (std::exchange(opens_menu_, false)) ImGui::OpenPopup("timeline menu");
  ImGui::PushFont(painter.look().small);
  if (ImGui::BeginPopup("timeline menu")) {
    const Finding& finding = menu_.finding;
    const bool found = finding.kind == Finding::Kind::span || finding.kind == Finding::Kind::idle;
    if (found) {
      if (ImGui::MenuItem("Jump to the cause", "J")) {
        select(finding, model);
        go_to_cause(-1, model);
      }
      if (ImGui::MenuItem("Jump to the effect", "Shift+J")) {
        select(finding, model);
        go_to_cause(1, model);
      }
    }
    if (ImGui::MenuItem("Back", "Backspace", false, model.history.behind() > 0))
      go_in_history(-1, model);
    if (ImGui::MenuItem("Forward", "Shift+Backspace", false, model.history.ahead() > 0))
      go_in_history(1, model);
    ImGui::Separator();
    if (found) {
      if (ImGui::MenuItem("Copy the name", "Ctrl+C")) {
        select(finding, model);
        ImGui::SetClipboardText(copied_name(model).c_str());
      }
      if (ImGui::MenuItem("Copy the values", "Ctrl+Shift+C")) {
        select(finding, model);
        model.view.range.reset();
        ImGui::SetClipboardText(copied_values(model).c_str());
      }
    }
    if (menu_.time && ImGui::MenuItem("Write a note here", "U")) {
      noted_ = menu_;
      opens_note_ = true;
    }
    if (menu_.rank >= 0) {
      ImGui::Separator();
      if (ImGui::MenuItem(layout_.is_pinned(menu_.rank) ? "Release the row" : "Pin the row", "T"))
        layout_.pin(menu_.rank);
      if (ImGui::MenuItem("Hide the row", "H")) layout_.hide(menu_.rank);
    }
    if (!layout_.hidden().empty() && ImGui::MenuItem("Show all rows", "Shift+H"))
      layout_.show_all();
    if (ImGui::MenuItem("Fold identical ranks", "I", layout_.folds())) toggle_folding();
    if (!model.places.empty() && ImGui::MenuItem("Group by the next axis", "O")) next_axis(model);
    if (!layout_.choices().order.empty() && ImGui::MenuItem("Restore the order of the rows"))
      layout_.choices().order.clear();
    ImGui::EndPopup();
  }
  ImGui::PopFont();
}

void TimelineView::draw_note_box(const Painter& painter, Model& model) {
  if (std::exchange(opens_note_, false)) {
    const Note* note = noted_.time ? model.notes.find(noted_.rank, *noted_.time, 0) : nullptr;
    note_text_ = note ? note->text : "";
    ImGui::OpenPopup("note");
  }
  ImGui::PushFont(painter.look().small);
  if (ImGui::BeginPopup("note")) {
    std::array<char, longest_note + 1> text{};
    note_text_.copy(text.data(), text.size() - 1);
    ImGui::SetNextItemWidth(painter.px(box_width));
    if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
    const bool entered =
        ImGui::InputTextWithHint("##note", "a note; Enter keeps it, an empty one is removed",
                                 text.data(), text.size(), ImGuiInputTextFlags_EnterReturnsTrue);
    note_text_ = text.data();
    if (entered) {
      if (noted_.time) model.notes.put({noted_.rank, *noted_.time, note_text_});
      ImGui::CloseCurrentPopup();
    }
    if (key_pressed(keys::escape, false)) ImGui::CloseCurrentPopup();
    ImGui::EndPopup();
  }
  ImGui::PopFont();
}

}  // namespace lockstep::viz
