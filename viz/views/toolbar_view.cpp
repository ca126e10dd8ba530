#include "viz/views/toolbar_view.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "viz/views/imgui_shim.h"

namespace lockstep::viz {
namespace {

constexpr float edge = 16;
constexpr float search_width = 170;

}  // namespace

int ToolbarView::draw(const Painter& painter, const Rect& rect, Model& model) {
  ViewState& view = model.view;
  ButtonRow row{painter, rect, rect.left + painter.px(edge)};
  if (row.button("P  Critical path", view.critical_path,
                 "the chain of actions and messages that determines the step's length"))
    view.critical_path = !view.critical_path;
  if (row.button("G  Predicted", view.ghost,
                 "below each lane: the same schedule, simulated with the mean times of each stage"))
    view.ghost = !view.ghost;
  const int jump = draw_search(row, model);

  const Source& source = model.source;
  const bool more = source.live && !model.timeline.ended() && !model.timeline.empty() &&
                    (!source.piped || source.connected > 0);
  const std::string follow =
      model.viewport.following() ? "L  Following the run" : "L  Resume following";
  const std::string help = "?  Keys";
  float left = rect.right - painter.px(edge) - ButtonRow::width_of(painter, help) +
               ButtonRow::gap_of(painter);
  if (more) left -= ButtonRow::width_of(painter, follow);
  ButtonRow right{painter, rect, left};
  if (more && right.button(follow, !model.viewport.following(),
                           "the window moves with the run; panning and zooming pause it"))
    model.viewport.follow(!model.viewport.following());
  if (right.button(help, view.help, "")) view.help = !view.help;
  return jump;
}

int ToolbarView::draw_search(ButtonRow& row, Model& model) {
  ViewState& view = model.view;
  const bool opens = view.searching && !was_searching_;
  was_searching_ = view.searching;
  if (!view.searching) {
    if (row.button("/  Search", false, "F3, rank:1, step:2, stage:0, or a part of a name"))
      view.searching = true;
    return 0;
  }
  const Rect rect = row.space(row.painter().px(search_width));
  ImGui::PushFont(row.painter().look().small);
  const float frame = (rect.height() - ImGui::GetFontSize()) / 2;
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {row.painter().px(8), frame});
  ImGui::SetCursorScreenPos(rect.min());
  ImGui::SetNextItemWidth(rect.width());
  if (opens) ImGui::SetKeyboardFocusHere();
  std::array<char, 128> text{};
  view.query.copy(text.data(), text.size() - 1);
  int jump = 0;
  if (ImGui::InputTextWithHint("##search", "F3, rank:1, send ...", text.data(), text.size(),
                               ImGuiInputTextFlags_EnterReturnsTrue))
    jump = ImGui::GetIO().KeyShift ? -1 : 1;
  const bool escaped = key_pressed(keys::escape, false);
  ImGui::PopStyleVar();
  ImGui::PopFont();
  if (escaped) {
    view.searching = false;
    text.fill(0);
  }
  if (view.query != text.data()) view.set_query(text.data(), model.timeline);
  if (!view.search.empty()) {
    row.text(fmt::format("{} found", view.found),
             view.found > 0 ? colours::text_dim : colours::trouble);
    if (row.button("<", false, "previous (Shift+N)")) jump = -1;
    if (row.button(">", false, "next (N or Enter)")) jump = 1;
  }
  return jump;
}

}  // namespace lockstep::viz
