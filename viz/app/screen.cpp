#include "viz/app/screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "viz/app/screen_parts.h"
#include "viz/views/button.h"
#include "viz/views/imgui_shim.h"
#include "viz/views/panel_card.h"

namespace lockstep::viz {
namespace {

constexpr float cards_height = 284;
constexpr float cards_share = 0.32f;  // of the window height, at most
constexpr float edge = 12;
constexpr float least_row = 1040;         // width of a window whose cards have room in a row
constexpr float least_card_height = 232;  // in a column
constexpr float pager_height = 34;
constexpr float recent_height = 30;  // of a line in the list of recent traces

}  // namespace

void Screen::draw_recent(const Look& look, float middle, float top, float bottom, Model& model) {
  const auto& recent = model.source.recent;
  if (recent.empty()) return;
  const float line = look.px(recent_height);
  begin_overlay("recent", {0, top}, {2 * middle, bottom - top});
  const Painter painter{ImGui::GetWindowDrawList(), look};
  painter.text(middle, top, "or open a recent one:", palette.text_dim, look.body, Align::centre);
  for (const std::string& path : recent) {
    top += line;
    if (top + line > bottom) break;
    const float width = ButtonRow::width_of(painter, path) - ButtonRow::gap_of(painter);
    ButtonRow row{painter, {0, top, 0, top + line}, middle - width / 2};
    if (row.button(path, false, "")) model.view.open = {.paths = {path}};
  }
  ImGui::End();
}

void Screen::draw(Model& model, const Look& look) {
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  begin_screen();
  if (model.view.opening) ImGui::GetIO().WantTextInput = true;  // the dialog receives all keys
  const Painter painter{ImGui::GetWindowDrawList(), look};
  if (!ImGui::GetIO().WantTextInput && key_pressed(keys::r, false))
    model.view.panel = model.panels.next(model.view.panel);
  model.contents = contents_of(model.timeline);
  model.stall.update(model.timeline, model.source.live);
  model.contents.waits = model.stall.picture() != nullptr;
  model.panels = panels_for(model.contents);
  model.places = MeshPlaces{model.timeline.run()};
  model.view.refresh(model.timeline);
  const auto described = described_step(model);
  model.described = described ? model.bubbles.find(model.timeline, *described) : nullptr;
  const std::vector<std::string> axes =
      model.described ? model.described->account.axes : std::vector<std::string>{};
  const auto [bar, toolbar, middle, cards, line, column] = screen_parts(
      painter,
      {.bar = StatusView::bar_height,
       .cards = cards_height,
       .cards_share = cards_share,
       .line = StatusView::height_of_line(painter, size.x, model, axes),
       .least_row = model.panels.fixed.empty() && model.panels.choices.empty() ? 0 : least_row});
  const int jump = toolbar_.draw(painter, toolbar, model);
  timeline_.draw(painter, middle, model);
  if (jump != 0) timeline_.go_to_match(jump, model);
  if (const auto rank = std::exchange(model.view.wanted_rank, std::nullopt))
    timeline_.go_to_rank(*rank, model);
  draw_cards(painter, cards, column, model);
  status_.draw_bar(painter, bar, model);
  status_.draw_line(painter, line, model, axes);
  if (model.timeline.empty()) {
    const float x = size.x / 2, y = (middle.top + middle.bottom) / 2;
    painter.text(x, y - painter.px(30), "Waiting for a run on " + model.source.name, palette.text,
                 painter.look().large, Align::centre);
    painter.text(x, y + painter.px(8), model.source.hint, palette.text_dim, painter.look().body,
                 Align::centre);
    draw_recent(look, x, y + painter.px(48), middle.bottom, model);
  }
  const Painter front{ImGui::GetForegroundDrawList(), look};
  open_.draw(look, size, model);
  if (model.view.opening) {
    // Covers everything else.
  } else if (model.view.exports) {
    export_.draw(look, size, model);
  } else if (model.view.help) {
    help_.draw(front, size, HelpView::Place::one_run);
  } else {
    details_.draw_tooltip(front, model);
    status_.draw_notes(front, model);
    if (memory_shown_) memory_.draw_tooltip(front);
  }
  ImGui::End();
}

void Screen::draw_cards(const Painter& painter, const Rect& rect, bool column, Model& model) {
  memory_shown_ = false;
  std::vector<Panel> panels = model.panels.fixed;
  if (const auto last = model.panels.shown(model.view.panel)) panels.push_back(*last);
  rings_.follow_selection(model);
  if (panels.empty()) {
    if (DetailsView::has_selection(model)) draw_selection(painter, rect, model);
  } else if (column) {
    draw_column(painter, rect, panels, model);
  } else {
    draw_row(painter, rect, panels, model);
  }
}

void Screen::draw_selection(const Painter& painter, const Rect& card, Model& model) {
  if (!model.view.range) return details_.draw_selection(painter, card, model);
  if (const auto found = names_.draw(painter, card, model)) timeline_.go_to(*found, model, true);
}

void Screen::draw_row(const Painter& painter, const Rect& row, const std::vector<Panel>& panels,
                      Model& model) {
  // The statistics of a range take the place of two cards.
  const std::size_t covered = model.view.range && panels.size() > 2 ? 2 : 1;
  float shares = 0;
  for (const Panel panel : panels) shares += info_of(panel).share;
  const float gaps = static_cast<float>(panels.size()) - 1;
  float left = row.left;
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const float width = (row.width() - gaps * painter.px(edge)) * info_of(panels[i]).share / shares;
    const Rect card{left, row.top, left + width, row.bottom};
    left = card.right + painter.px(edge);
    if (covered > 1 && i + covered == panels.size())
      return draw_selection(painter, {card.left, card.top, row.right, card.bottom}, model);
    draw_card(painter, card, panels[i], i + 1 == panels.size(), model);
  }
}

void Screen::draw_column(const Painter& painter, const Rect& column,
                         const std::vector<Panel>& panels, Model& model) {
  const auto fitting = [&](float height) {
    const std::size_t room =
        whole_number((height + painter.px(edge)) / painter.px(least_card_height + edge));
    return std::clamp<std::size_t>(room, 1, panels.size());
  };
  Rect cards = column;
  std::size_t shown = fitting(cards.height());
  if (shown < panels.size()) {
    cards.bottom -= painter.px(pager_height);
    shown = fitting(cards.height());
  }
  const std::size_t last = panels.size() - shown;
  // A selection takes the last card's place, so that place must be in view.
  const bool selection = DetailsView::has_selection(model);
  if (selection && !had_selection_) first_card_ = last;
  had_selection_ = selection;
  first_card_ = std::min(first_card_, last);
  const float gaps = painter.px(edge) * static_cast<float>(shown - 1);
  const float height = (cards.height() - gaps) / static_cast<float>(shown);
  const std::size_t first = first_card_;
  for (std::size_t i = first; i < first + shown; ++i) {
    const float top = cards.top + (height + painter.px(edge)) * static_cast<float>(i - first);
    draw_card(painter, {cards.left, top, cards.right, top + height}, panels[i],
              i + 1 == panels.size(), model);
  }
  if (last == 0) return;
  ButtonRow pager{painter, {cards.left, cards.bottom, cards.right, column.bottom}, cards.left};
  ImGui::PushID("cards");
  int by = pager.button("<", false, "the card above (wheel)") ? -1 : 0;
  if (pager.button(">", false, "the card below (wheel)")) by = 1;
  ImGui::PopID();
  std::string words = fmt::format("{} of {} cards: ", shown, panels.size());
  for (std::size_t i = first; i < first + shown; ++i)
    words += (i > first ? ", " : "") + std::string{info_of(panels[i]).name};
  pager.text(painter.fitted(words, painter.look().small, cards.right - pager.left()),
             palette.text_dim);
  const ImGuiIO& io = ImGui::GetIO();
  if (io.MouseWheel != 0 && !io.KeyCtrl && column.contains(io.MousePos) &&
      !(memory_shown_ && memory_.scrolled()) && !(model.view.range && names_.scrolled()))
    by = io.MouseWheel < 0 ? 1 : -1;
  if (by > 0) first_card_ = std::min(first + 1, last);
  if (by < 0) first_card_ = first - std::min<std::size_t>(first, 1);
}

void Screen::draw_card(const Painter& painter, const Rect& card, Panel panel, bool last,
                       Model& model) {
  if (last && DetailsView::has_selection(model)) {
    draw_selection(painter, card, model);
  } else {
    draw_panel(panel, painter, card, model);
  }
}

void Screen::draw_panel(Panel panel, const Painter& painter, const Rect& card, Model& model) {
  switch (panel) {
    case Panel::bubble:
    case Panel::communication:
      return bubble_.draw(painter, card, model);
    case Panel::loss:
      return loss_.draw(painter, card, model);
    case Panel::memory:
      memory_shown_ = true;
      return memory_.draw(painter, card, model);
    case Panel::waits:
      return stall_.draw(painter, panel_card(painter, card, Panel::waits, "", model),
                         *model.stall.picture());
    case Panel::what_if:
      return lab_.draw(painter, card, model);
    case Panel::plan:
      return plan_.draw(painter, card, model);
    case Panel::longest_waits:
      if (const auto clicked = waits_.draw(painter, card, model)) timeline_.go_to(*clicked, model);
      return;
    case Panel::experts:
      return experts_.draw(painter, card, model);
    case Panel::buckets:
      if (const auto clicked = buckets_.draw(painter, card, model))
        timeline_.go_to(*clicked, model);
      return;
    case Panel::traffic:
      return traffic_.draw(painter, card, model);
    case Panel::rings:
      return rings_.draw(painter, card, model);
    case Panel::shards:
      return shards_.draw(painter, card, model);
    case Panel::retime:
      return retime_.draw(painter, card, model);
  }
}

}  // namespace lockstep::viz
