#include "viz/views/plan_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/data/window/model.h"
#include "viz/views/button.h"
#include "viz/views/panel_card.h"
#include "viz/views/paragraph.h"

namespace lockstep::viz {
namespace {

constexpr float axes_height = 30;
constexpr float margin = 4;       // around the ranks of a node
constexpr float node_gap = 6;     // between nodes, half on each side
constexpr float least_frame = 6;  // pixels of a cell that has a frame
constexpr float dimmed = 0.35f;

}  // namespace

Rect PlanView::cell_of(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  return rank >= 0 && index < cells_.size() ? cells_[index] : Rect{};
}

void PlanView::refresh(const RunInfo& run) {
  if (run == run_) return;
  run_ = run;
  layout_ = plan_layout(run);
  const auto& axes = layout_.places.axes();
  if (!axes.empty() && std::ranges::count(axes, axis_) == 0) axis_ = axes.front();
}

void PlanView::draw(const Painter& painter, const Rect& rect, Model& model) {
  refresh(model.timeline.run());
  const Rect inside =
      panel_card(painter, rect, Panel::plan, fmt::format("{} ranks", run_.ranks), model);
  const Look& look = painter.look();
  hovered_.reset();
  if (layout_.nodes.empty()) return;
  ButtonRow row{painter,
                {inside.left, inside.top, inside.right, inside.top + painter.px(axes_height)},
                inside.left};
  for (const Axis axis : layout_.places.axes())
    if (row.button(fmt::format("{} {}", name_of(axis), layout_.places.size(axis)), axis == axis_,
                   "colour the ranks by their place on this axis"))
      axis_ = axis;
  const float line = size_of(look.small) + painter.px(3);
  const std::string words = plan_axis_words(layout_, axis_);
  const float words_height = paragraph_height(painter, words, inside.width());
  const Rect nodes{inside.left, inside.top + painter.px(axes_height + 4), inside.right,
                   inside.bottom - std::max(words_height, 2 * line) - painter.px(4)};
  draw_nodes(painter, nodes);
  explanation_ = hovered_ ? place_words(layout_, *hovered_, axis_) : std::vector{words};
  const Rect below{inside.left, nodes.bottom + painter.px(4), inside.right, inside.bottom};
  std::string all;
  for (const std::string& each : explanation_) all += (all.empty() ? "" : "; ") + each;
  paragraph(painter, below, all, palette.text_dim);
}

void PlanView::draw_nodes(const Painter& painter, const Rect& rect) {
  const Look& look = painter.look();
  const int nodes = static_cast<int>(layout_.nodes.size());
  const int ranks = static_cast<int>(layout_.nodes.front().size());
  const float around = painter.px(margin + node_gap / 2);
  const float head = layout_.nodes_known ? size_of(look.small) + painter.px(2) : 0;
  const PlanGrid grid = plan_grid(nodes, ranks, rect.width(), rect.height(), around, head);
  const int rank_rows = (ranks + grid.rank_columns - 1) / grid.rank_columns;
  const float node_width = grid.width * static_cast<float>(grid.rank_columns) + 2 * around;
  const float node_height = grid.height * static_cast<float>(rank_rows) + head + 2 * around;
  cells_.assign(static_cast<std::size_t>(run_.ranks), {});
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const float half_gap = painter.px(node_gap / 2);
  for (int n = 0; n < nodes; ++n) {
    const float left = rect.left + node_width * static_cast<float>(n % grid.node_columns);
    const float top = rect.top + node_height * static_cast<float>(n / grid.node_columns);
    const Rect box = Rect{left, top, left + node_width, top + node_height}.inset(half_gap);
    painter.fill(box, palette.lane, painter.px(4));
    painter.frame(box, palette.panel_edge, painter.px(4));
    if (layout_.nodes_known)
      painter.text_in({box.left, box.top, box.right, box.top + head + painter.px(2)},
                      fmt::format("node {}", n), palette.text_dim, look.small);
    const auto& members = layout_.nodes[static_cast<std::size_t>(n)];
    for (std::size_t i = 0; i < members.size(); ++i) {
      const int column = static_cast<int>(i) % grid.rank_columns;
      const int row = static_cast<int>(i) / grid.rank_columns;
      const float x = left + around + grid.width * static_cast<float>(column);
      const float y = top + around + head + grid.height * static_cast<float>(row);
      const Rect cell{x, y, x + grid.width, y + grid.height};
      cells_[static_cast<std::size_t>(members[i])] = cell;
      if (cell.contains(mouse)) hovered_ = members[i];
    }
  }
  group_ = hovered_ ? layout_.places.group(*hovered_, axis_) : std::vector<int>{};
  for (int rank = 0; rank < run_.ranks; ++rank)
    draw_rank(painter, cells_[static_cast<std::size_t>(rank)], rank,
              std::ranges::count(group_, rank) > 0);
}

void PlanView::draw_rank(const Painter& painter, const Rect& cell, int rank,
                         bool stands_out) const {
  const Look& look = painter.look();
  const bool framed = cell.width() >= least_frame && cell.height() >= least_frame;
  const Rect box = framed ? cell.inset(1) : cell;
  const int place = layout_.places.coordinate(rank, axis_);
  ImU32 colour = group_colour(static_cast<std::size_t>(std::max(place, 0)));
  const ImU32 ink = ink_on(colour);
  const bool dims = hovered_ && !stands_out;
  painter.fill(box, dims ? mixed(palette.lane, colour, dimmed) : colour,
               framed ? painter.px(3) : 0);
  if (stands_out) painter.frame(box, palette.highlight, framed ? painter.px(3) : 0, painter.px(2));
  const float line = size_of(look.small);
  const std::string number = std::to_string(rank), coordinates = layout_.places.words(rank);
  const ImU32 text = dims ? palette.text : ink;
  const bool two_lines = box.height() >= 2 * line + painter.px(4) &&
                         painter.text_width(coordinates, look.small) + painter.px(4) <= box.width();
  if (!two_lines) {
    painter.text_in(box, number, text, look.small);
    return;
  }
  const float middle = (box.top + box.bottom) / 2;
  painter.text_in({box.left, middle - line - painter.px(1), box.right, middle}, number, text,
                  look.small);
  painter.text_in({box.left, middle, box.right, middle + line + painter.px(1)}, coordinates, text,
                  look.small);
}

}  // namespace lockstep::viz
