#include "viz/views/traffic_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/data/step/words.h"
#include "viz/views/panel_card.h"
#include "viz/views/paragraph.h"

namespace lockstep::viz {
namespace {

constexpr float least_cell = 3;  // units
constexpr float most_cell = 34;
constexpr float numbers_width = 22;   // for the senders' numbers
constexpr float matrix_share = 0.5f;  // of the card's width, at most
constexpr float gap = 14;

}  // namespace

void TrafficView::refresh(const Model& model) {
  const StepKey key = step_key(model);
  if (key == analysed_) return;
  analysed_ = key;
  matrix_ = key.step < 0 ? TrafficMatrix{} : traffic_matrix(model.timeline, key.step);
}

std::optional<ImVec2> TrafficView::centre_of(std::size_t from, std::size_t to) const {
  if (from >= shown_ || to >= shown_) return std::nullopt;
  return ImVec2{cells_.left + cell_ * (static_cast<float>(to) + 0.5f),
                cells_.top + cell_ * (static_cast<float>(from) + 0.5f)};
}

void TrafficView::draw(const Painter& painter, const Rect& rect, Model& model) {
  refresh(model);
  const Look& look = painter.look();
  const Rect inside = panel_card(
      painter, rect, Panel::traffic,
      matrix_.step < 0 ? "" : fmt::format("step {}, sent by row to column", matrix_.step), model);
  shown_ = 0;
  explanation_.clear();
  if (matrix_.total == 0) {
    painter.text(inside.left, inside.top,
                 matrix_.step < 0 ? "no step is complete yet" : "no messages in this step",
                 palette.text_faint, look.body);
    return;
  }
  const float line = size_of(look.small) + painter.px(3);
  const float room =
      std::min(inside.height() - line, matrix_share * inside.width() - painter.px(numbers_width));
  const auto ranks = static_cast<float>(matrix_.ranks.size());
  cell_ = std::clamp(room / ranks, painter.px(least_cell), painter.px(most_cell));
  shown_ = std::min(matrix_.ranks.size(), whole_number(room / cell_ + 0.01f));
  const float side = cell_ * static_cast<float>(shown_);
  cells_ = {inside.left + painter.px(numbers_width), inside.top + line,
            inside.left + painter.px(numbers_width) + side, inside.top + line + side};
  const auto hovered = draw_cells(painter);

  if (hovered) {
    explanation_ = cell_words(model.timeline, matrix_, hovered->first, hovered->second);
  } else {
    explanation_.push_back(fmt::format("{} in this step", bytes_words(matrix_.total)));
    if (std::string nodes = node_words(matrix_); !nodes.empty())
      explanation_.push_back(std::move(nodes));
    for (const TrafficSum& sum : traffic_sums(model.timeline, matrix_))
      explanation_.push_back(sum.words + ": " + bytes_words(sum.bytes));
    if (shown_ < matrix_.ranks.size())
      explanation_.push_back(
          fmt::format("the matrix shows {} of {} ranks", shown_, matrix_.ranks.size()));
  }
  explain(painter, {cells_.right + painter.px(gap), inside.top, inside.right, inside.bottom},
          explanation_, palette.text, &model.view.wanted_rank);
}

std::optional<std::pair<int, int>> TrafficView::draw_cells(const Painter& painter) {
  const Look& look = painter.look();
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  std::optional<std::pair<int, int>> hovered;
  painter.fill(cells_, palette.lane);
  const auto edge = [&](float start, std::size_t index) {
    return start + cell_ * static_cast<float>(index);
  };
  // Number every rank, or only every n-th if they are too narrow.
  const float widest = painter.text_width(std::to_string(matrix_.ranks[shown_ - 1]), look.small);
  const std::size_t every =
      1 + whole_number(std::max(widest + painter.px(4), size_of(look.small)) / cell_ - 0.001f);
  for (std::size_t from = 0; from < shown_; ++from) {
    if (from % every == 0) {
      const std::string number = std::to_string(matrix_.ranks[from]);
      const float middle = cell_ / 2;
      painter.text(edge(cells_.left, from) + middle,
                   cells_.top - size_of(look.small) - painter.px(2), number, palette.text_dim,
                   look.small, Align::centre);
      painter.text(cells_.left - painter.px(6),
                   edge(cells_.top, from) + middle - size_of(look.small) / 2, number,
                   palette.text_dim, look.small, Align::right);
    }
    for (std::size_t to = 0; to < shown_; ++to) {
      const Rect cell{edge(cells_.left, to), edge(cells_.top, from), edge(cells_.left, to + 1),
                      edge(cells_.top, from + 1)};
      const Rect box = cell_ > 6 ? cell.inset(1) : cell;
      const std::int64_t bytes = matrix_.bytes(matrix_.ranks[from], matrix_.ranks[to]);
      if (bytes > 0) {
        const double share = static_cast<double>(bytes) / static_cast<double>(matrix_.highest);
        painter.fill(box, faded(colour_of(Category::communication),
                                0.2f + 0.8f * static_cast<float>(share)));
      }
      if (from != to && cell.contains(mouse)) {
        hovered = {matrix_.ranks[from], matrix_.ranks[to]};
        painter.frame(box, palette.highlight);
      }
    }
  }
  // Draws lines between the nodes.
  for (std::size_t i = 1; matrix_.ranks_per_node > 0 && i < shown_; ++i) {
    if (matrix_.node_of(matrix_.ranks[i - 1]) == matrix_.node_of(matrix_.ranks[i])) continue;
    painter.line(cells_.left, edge(cells_.top, i), cells_.right, edge(cells_.top, i),
                 palette.text_faint);
    painter.line(edge(cells_.left, i), cells_.top, edge(cells_.left, i), cells_.bottom,
                 palette.text_faint);
  }
  return hovered;
}

}  // namespace lockstep::viz
