#include "viz/views/curved_arrow.h"

#include <array>
#include <cmath>

namespace lockstep::viz {
namespace {

constexpr float head = 7, head_angle = 0.45f;  // units; radians
constexpr float thickness = 1.5f;              // units

ImVec2 centre(const Rect& box) {
  return {(box.left + box.right) / 2, (box.top + box.bottom) / 2};
}

}  // namespace

CurvedArrow::CurvedArrow(const Rect& from, const Rect& to, float bend)
    : from_(centre(from)), to_(centre(to)) {
  const ImVec2 along{to_.x - from_.x, to_.y - from_.y};
  control_ = {(from_.x + to_.x) / 2 - along.y * bend, (from_.y + to_.y) / 2 + along.x * bend};
  begin_ = edge(from, 0, 1);
  end_ = edge(to, 1, 0);
}

ImVec2 CurvedArrow::on_curve(float t) const {
  const float u = 1 - t;
  return {u * u * from_.x + 2 * u * t * control_.x + t * t * to_.x,
          u * u * from_.y + 2 * u * t * control_.y + t * t * to_.y};
}

float CurvedArrow::edge(const Rect& box, float inside, float outside) const {
  for (int i = 0; i < 12; ++i) {
    const float t = (outside + inside) / 2;
    (box.contains(on_curve(t)) ? inside : outside) = t;
  }
  return outside;
}

void CurvedArrow::draw(const Painter& painter, ImU32 colour) const {
  constexpr int pieces = 16;
  std::array<ImVec2, pieces + 1> points;
  for (int i = 0; i <= pieces; ++i)
    points[static_cast<std::size_t>(i)] = at(static_cast<float>(i) / static_cast<float>(pieces));
  painter.list()->AddPolyline(points.data(), pieces + 1, colour, 0, painter.px(thickness));
  const ImVec2 tip = points[pieces], before = points[pieces - 1];
  const float angle = std::atan2(tip.y - before.y, tip.x - before.x), size = painter.px(head);
  painter.list()->AddTriangleFilled(
      tip,
      {tip.x - size * std::cos(angle - head_angle), tip.y - size * std::sin(angle - head_angle)},
      {tip.x - size * std::cos(angle + head_angle), tip.y - size * std::sin(angle + head_angle)},
      colour);
}

}  // namespace lockstep::viz
