#include "viz/app/stall_screen.h"

#include "viz/app/screen_parts.h"
#include "viz/views/imgui_shim.h"
#include "viz/views/status_view.h"

namespace lockstep::viz {
namespace {

constexpr float edge = 16;

}  // namespace

void StallScreen::take_keys(Model& model) {
  if (ImGui::GetIO().WantTextInput) return;
  ViewState& view = model.view;
  if (key_pressed(keys::b, false)) view.toggle_theme();
  if (key_pressed(keys::o, false)) view.opening = true;
  if (typed('?')) view.help = !view.help;
  if (key_pressed(keys::escape, false)) view.help = false;
}

void StallScreen::draw_bar(const Painter& painter, const Rect& rect, const Model& model) {
  const Look& look = painter.look();
  painter.fill(rect, palette.panel);
  painter.line(rect.left, rect.bottom, rect.right, rect.bottom, palette.panel_edge);
  const float middle = (rect.top + rect.bottom) / 2;
  const std::string source = "from " + model.source.name;
  const float width = painter.text_width(source, look.small) + painter.px(edge);
  painter.pill(rect.right - width - painter.px(edge),
               middle - (size_of(look.small) + painter.px(7)) / 2, source, palette.text_dim, false);
  float x = rect.left + painter.px(edge);
  x += painter.text(x, middle - size_of(look.large) / 2, "Who waits for whom", palette.text,
                    look.large) +
       painter.px(edge);
  painter.text(
      x, middle - size_of(look.body) / 2,
      painter.fitted(model.source.hint, look.body, rect.right - width - x - painter.px(edge)),
      palette.text_dim, look.body);
}

void StallScreen::draw(Model& model, const Look& look) {
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  begin_screen();
  if (model.view.opening) ImGui::GetIO().WantTextInput = true;  // the dialog receives all keys
  const Painter painter{ImGui::GetWindowDrawList(), look};
  take_keys(model);
  const Rect bar{0, 0, size.x, painter.px(StatusView::bar_height)};
  draw_bar(painter, bar, model);
  ImFont* small = look.small;
  const float line = size_of(small) + painter.px(edge);
  Rect card{painter.px(edge), bar.bottom + painter.px(edge), size.x - painter.px(edge),
            size.y - line};
  painter.fill(card, palette.panel, painter.px(6));
  painter.frame(card, palette.panel_edge, painter.px(6));
  if (const StallPicture* picture = model.stall.picture())
    view_.draw(painter, card.inset(painter.px(edge)), *picture);
  const std::string& notice = model.source.notice;
  painter.text(painter.px(edge), size.y - line + painter.px(edge) / 2,
               painter.fitted(notice.empty() ? "O open   B background   ? keys   Q quit" : notice,
                              small, size.x - painter.px(2 * edge)),
               notice.empty() ? palette.text_faint : palette.trouble, small);
  const Painter front{ImGui::GetForegroundDrawList(), look};
  open_.draw(look, size, model);
  if (!model.view.opening && model.view.help) help_.draw(front, size, HelpView::Place::one_run);
  ImGui::End();
}

}  // namespace lockstep::viz
