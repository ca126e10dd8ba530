#include "viz/views/scrolled_rows.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::viz {
namespace {

constexpr float wheel_rows = 3;  // per notch

}  // namespace

std::size_t ScrolledRows::update(const Painter& painter, const Rect& area, const Rect& bar,
                                 std::size_t count, std::size_t shown) {
  const ImGuiIO& io = ImGui::GetIO();
  const std::size_t last = count - std::min(shown, count);  // the last possible first row
  const std::size_t before = std::exchange(first_, std::min(first_, last));
  scrolled_ = false;
  if (last == 0) return first_;
  if (io.MouseWheel != 0 && !io.KeyCtrl && !io.KeyShift && area.contains(io.MousePos)) {
    const float by = -io.MouseWheel * wheel_rows;
    const float to = static_cast<float>(first_) + (by > 0 ? std::ceil(by) : std::floor(by));
    first_ = std::min(whole_number(to), last);
    scrolled_ = first_ != before;
  }
  const float height = bar.height() / static_cast<float>(count);
  const float top = bar.top + height * static_cast<float>(first_);
  painter.fill(bar, palette.lane, painter.px(2));
  painter.fill({bar.left, top, bar.right, top + height * static_cast<float>(shown)},
               palette.text_faint, painter.px(2));
  return first_;
}

}  // namespace lockstep::viz
