#include "viz/views/waits_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/data/step/words.h"
#include "viz/views/panel_card.h"

namespace lockstep::viz {
namespace {

constexpr float line_gap = 4;
constexpr float swatch = 8;
constexpr float gap = 12;  // between columns
constexpr float bar_width = 4;

}  // namespace

std::optional<Finding> WaitsView::draw(const Painter& painter, const Rect& rect, Model& model) {
  const auto* waits = waits_.of(model);
  const Rect inside =
      panel_card(painter, rect, Panel::longest_waits,
                 waits_.step() < 0 ? "" : step_words(model.timeline, waits_.step()), model);
  rows_.clear();
  ImFont* small = painter.look().small;
  if (!waits || waits->empty()) {
    painter.text(inside.left, inside.top,
                 waits               ? "no rank waits in this step"
                 : waits_.step() < 0 ? "no step is complete yet"
                                     : "computing",
                 palette.text_faint, small);
    return {};
  }
  const auto ranks_words = [](const LongWait& wait) {
    const std::string rank = fmt::format("rank {}", wait.rank);
    return wait.awaited ? fmt::format("{} for rank {}", rank, *wait.awaited) : rank;
  };
  const auto length_words = [](const LongWait& wait) {
    return duration_words(static_cast<double>(wait.duration()));
  };
  const float line = size_of(small) + painter.px(line_gap);
  float lengths = 0, ranks = painter.text_width("who waits for whom", small);
  for (const LongWait& wait : *waits) {
    lengths = std::max(lengths, painter.text_width(length_words(wait), small));
    ranks = std::max(ranks, painter.text_width(ranks_words(wait), small));
  }
  const float length_right = inside.left + lengths;
  const float ranks_left = length_right + painter.px(gap);
  const float cause_left = ranks_left + ranks + painter.px(gap);
  const Rect bar{inside.right - painter.px(bar_width), inside.top + line, inside.right,
                 inside.bottom};
  float y = inside.top;
  painter.text(length_right, y, "time", palette.text_faint, small, Align::right);
  painter.text(ranks_left, y, "who waits for whom", palette.text_faint, small);
  painter.text(cause_left, y,
               painter.fitted("cause; click: go there", small, bar.left - cause_left),
               palette.text_faint, small);
  const std::size_t room = whole_number((inside.bottom - y - line) / line);
  const std::size_t shown = std::min(room, waits->size());
  const std::size_t first = scroll_.update(painter, inside, bar, waits->size(), shown);
  std::optional<Finding> clicked;
  for (std::size_t i = first; i < first + shown; ++i) {
    y += line;
    const LongWait& wait = (*waits)[i];
    const Rect row{inside.left, y, bar.left - painter.px(2), y + line};
    rows_.push_back(row);
    ImGui::PushID(static_cast<int>(i));
    ImGui::SetCursorScreenPos(row.min());
    if (ImGui::InvisibleButton("wait", {std::max(row.width(), 1.0f), row.height()}))
      clicked = wait.place(model.timeline);
    if (ImGui::IsItemHovered()) painter.fill(row, faded(palette.text_faint, 0.15f), painter.px(3));
    ImGui::PopID();
    painter.text(length_right, y, length_words(wait), palette.text, small, Align::right);
    painter.text(ranks_left, y, ranks_words(wait), palette.text, small);
    const float size = painter.px(swatch), top = y + (size_of(small) - size) / 2 + 1;
    painter.fill({cause_left, top, cause_left + size, top + size}, colour_of(wait.piece.part),
                 painter.px(2));
    const float words = cause_left + size + painter.px(5);
    painter.text(words, y,
                 painter.fitted(piece_title(wait.piece, wait.axis), small, row.right - words),
                 palette.text_dim, small);
  }
  return clicked;
}

}  // namespace lockstep::viz
