#include "viz/app/screen.h"

#include <algorithm>
#include <iterator>

#include "viz/views/button.h"
#include "viz/views/imgui_shim.h"

namespace lockstep::viz {
namespace {

constexpr float cards_height = 256;
constexpr float cards_share = 0.32f;  // of the window height, at most
constexpr float edge = 12;
constexpr float recent_height = 30;  // of a line in the list of recent traces
/// Shares of the width for the cards: bubble, loss, memory, what if.
constexpr float card_shares[] = {0.19f, 0.17f, 0.28f, 0.36f};

}  // namespace

void Screen::draw_recent(const Look& look, float middle, float top, float bottom, Model& model) {
  const auto& recent = model.source.recent;
  if (recent.empty()) return;
  const float line = look.px(recent_height);
  begin_overlay("recent", {0, top}, {2 * middle, bottom - top});
  const Painter painter{ImGui::GetWindowDrawList(), look};
  painter.text(middle, top, "or open a recent one:", colours::text_dim, look.body, Align::centre);
  for (const std::string& path : recent) {
    top += line;
    if (top + line > bottom) break;
    const float width = ButtonRow::width_of(painter, path) - ButtonRow::gap_of(painter);
    ButtonRow row{painter, {0, top, 0, top + line}, middle - width / 2};
    if (row.button(path, false, "")) model.view.open = path;
  }
  ImGui::End();
}

void Screen::draw(Model& model, const Look& look) {
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(size);
  ImGui::Begin("Lockstep", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus |
                   ImGuiWindowFlags_NoScrollWithMouse | ImGuiWindowFlags_NoNav |
                   ImGuiWindowFlags_NoBackground);
  const Painter painter{ImGui::GetWindowDrawList(), look};
  const Rect bar{0, 0, size.x, painter.px(StatusView::bar_height)};
  const Rect line{0, size.y - painter.px(StatusView::line_height), size.x, size.y};
  const float cards = std::min(painter.px(cards_height), cards_share * size.y);
  const Rect card_row{painter.px(edge), line.top - cards, size.x - painter.px(edge), line.top};
  const Rect toolbar{0, bar.bottom, size.x, bar.bottom + painter.px(ToolbarView::height)};
  const Rect middle{0, toolbar.bottom, size.x, card_row.top - painter.px(edge)};

  if (!ImGui::GetIO().WantTextInput) {
    if (key_pressed(keys::e, false)) model.view.exports = !model.view.exports;
    if (key_pressed(keys::b, false)) model.view.toggle_theme();
  }
  model.view.refresh(model.timeline);
  const int jump = toolbar_.draw(painter, toolbar, model);
  timeline_.draw(painter, middle, model);
  if (jump != 0) timeline_.go_to_match(jump, model);
  float left = card_row.left;
  const float room =
      card_row.width() - static_cast<float>(std::size(card_shares) - 1) * painter.px(edge);
  const auto next_card = [&](float share) {
    const Rect card{left, card_row.top, left + share * room, card_row.bottom};
    left = card.right + painter.px(edge);
    return card;
  };
  bubble_.draw(painter, next_card(card_shares[0]), model);
  loss_.draw(painter, next_card(card_shares[1]), model);
  memory_.draw(painter, next_card(card_shares[2]), model);
  // A selection takes the place of the what-if simulation, so that it covers no lane.
  const Rect last_card = next_card(card_shares[3]);
  if (DetailsView::has_selection(model)) {
    details_.draw_selection(painter, last_card, model);
  } else {
    lab_.draw(painter, last_card, model);
  }
  status_.draw_bar(painter, bar, model);
  status_.draw_line(painter, line, model);
  if (model.timeline.empty()) {
    const float x = size.x / 2, y = (middle.top + middle.bottom) / 2;
    painter.text(x, y - painter.px(30), "Waiting for a run on " + model.source.name, colours::text,
                 painter.look().large, Align::centre);
    painter.text(x, y + painter.px(8), model.source.hint, colours::text_dim, painter.look().body,
                 Align::centre);
    draw_recent(look, x, y + painter.px(48), middle.bottom, model);
  }
  const Painter front{ImGui::GetForegroundDrawList(), look};
  if (model.view.exports) {
    export_.draw(look, size, model);
  } else if (model.view.help) {
    help_.draw(front, size);
  } else {
    details_.draw_tooltip(front, model);
  }
  ImGui::End();
}

}  // namespace lockstep::viz
