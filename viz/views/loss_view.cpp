#include "viz/views/loss_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep::viz {
namespace {

constexpr float axis_width = 38;
constexpr std::size_t dots_up_to = 60;  // points; above that, only a line

}  // namespace

void LossView::draw(const Painter& painter, const Rect& rect, const Model& model) const {
  const Look& look = painter.look();
  const std::vector<LossPoint> points = loss_series(model.timeline);
  const Rect inside = painter.card(rect, info_of(Panel::loss).name,
                                   points.empty() ? "" : fmt::format("{} steps", points.size()));
  if (points.empty()) {
    painter.text(inside.left, inside.top, "none reported yet", palette.text_faint, look.body);
    return;
  }
  const auto [low, high] =
      std::minmax_element(points.begin(), points.end(),
                          [](const LossPoint& a, const LossPoint& b) { return a.loss < b.loss; });
  const float number =
      painter.text(inside.left, inside.top - painter.px(4),
                   fmt::format("{:.3f}", points.back().loss), palette.text, look.large);
  const std::string from = fmt::format("from {:.3f}", points.front().loss);
  const float from_left = inside.left + number + painter.px(10);
  if (from_left + painter.text_width(from, look.small) <= inside.right)
    painter.text(from_left, inside.top + size_of(look.large) - size_of(look.small) - painter.px(7),
                 from, palette.text_dim, look.small);
  const Rect plot{inside.left + painter.px(axis_width),
                  inside.top + size_of(look.large) + painter.px(10), inside.right - painter.px(4),
                  inside.bottom - size_of(look.small) - painter.px(4)};
  const double span = std::max(high->loss - low->loss, 1e-6 * std::max(std::abs(high->loss), 1e-9));
  const double bottom = low->loss - 0.06 * span;
  const double top = high->loss + 0.06 * span;
  const auto y_of = [&](double loss) {
    return plot.bottom - plot.height() * static_cast<float>((loss - bottom) / (top - bottom));
  };
  for (const double mark : {low->loss, (low->loss + high->loss) / 2, high->loss}) {
    const float y = y_of(mark);
    painter.line(plot.left, y, plot.right, y, palette.grid);
    painter.text(plot.left - painter.px(6), y - size_of(look.small) / 2,
                 fmt::format("{:.2f}", mark), palette.text_faint, look.small, Align::right);
  }
  painter.line(plot.left, plot.bottom, plot.right, plot.bottom, palette.panel_edge);
  const float count = static_cast<float>(std::max<std::size_t>(points.size() - 1, 1));
  // Draws at most one point per pixel (the first), and always the last point.
  std::vector<ImVec2> curve;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const ImVec2 at{plot.left + plot.width() * static_cast<float>(i) / count, y_of(points[i].loss)};
    if (!curve.empty() && i + 1 < points.size() && at.x - curve.back().x < 1) continue;
    curve.push_back(at);
  }
  painter.list()->AddPolyline(curve.data(), static_cast<int>(curve.size()), palette.accent, 0,
                              painter.px(2));
  if (points.size() <= dots_up_to) {
    for (const ImVec2& at : curve) {
      painter.list()->AddCircleFilled(at, painter.px(2.5f), palette.accent, 10);
    }
  }
  const float y = plot.bottom + painter.px(3);
  const float last = painter.text(plot.right, y, std::to_string(points.size() - 1),
                                  palette.text_faint, look.small, Align::right);
  for (const char* first : {"step 0", "0"}) {
    if (plot.left + painter.text_width(first, look.small) + painter.px(6) > plot.right - last)
      continue;
    painter.text(plot.left, y, first, palette.text_faint, look.small);
    break;
  }
}

}  // namespace lockstep::viz
