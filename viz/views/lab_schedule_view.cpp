#include "viz/views/lab_schedule_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/data/step/words.h"
#include "viz/views/tip.h"

namespace lockstep::viz {
namespace {

constexpr float names_width = 58;
constexpr float most_row = 56, row_gap = 3;
constexpr float least_curve = 10;         // pixels; curves are left out if there is less room
constexpr float curve_share = 0.34f;      // of a row
constexpr float simulated_share = 0.62f;  // of a lane that also shows observed actions
constexpr float least_edge = 3;           // narrower boxes have no edge
constexpr float over_line = 3;            // below a lane whose rank exceeds the memory limit
constexpr float axis_mark = 90;           // between the marks of an axis

/// The lanes' geometry.
struct Lanes {
  Rect rect;
  float row = 0, curve = 0;
  double scale = 0;  ///< pixels per picosecond

  Lanes(const Painter& painter, const Rect& whole, const LabDrawing& drawing)
      : rect{whole.left + lab_names_width(painter), whole.top, whole.right, whole.bottom} {
    row = std::clamp(whole.height() / static_cast<float>(drawing.result.schedule.ranks), 1.0f,
                     painter.px(most_row));
    curve = row * curve_share;
    if (curve < painter.px(least_curve)) curve = 0;
    scale = static_cast<double>(rect.width()) /
            static_cast<double>(std::max<Picoseconds>(drawing.end, 1));
  }
  float x(Picoseconds at) const {
    return rect.left + static_cast<float>(static_cast<double>(at) * scale);
  }
  Rect drawn(const LabDrawing& drawing) const {
    const float height = row * static_cast<float>(drawing.result.schedule.ranks);
    return {rect.left, rect.top, rect.right, std::min(rect.top + height, rect.bottom)};
  }
  Rect lane(const Painter& painter, int rank) const {
    const float top = rect.top + row * static_cast<float>(rank);
    return {rect.left, top, rect.right, top + row - curve - painter.px(row_gap)};
  }
};

void draw_actions(const Painter& painter, const Lanes& lanes, const Rect& lane,
                  const std::vector<Action>& actions, const std::vector<TimedAction>& timed,
                  bool named) {
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Rect box{lanes.x(timed[i].start), lane.top, lanes.x(timed[i].end), lane.bottom};
    const ImU32 colour = colour_of(category(actions[i].op));
    const bool odd = actions[i].microbatch % 2 == 1;
    painter.fill(box, odd ? mixed(colour, IM_COL32_WHITE, 0.14f) : colour);
    if (box.width() > least_edge)
      painter.line(box.left + 0.5f, box.top, box.left + 0.5f, box.bottom,
                   mixed(colour, IM_COL32_BLACK, 0.45f));
    if (named)
      painter.text_in(box, std::to_string(actions[i].microbatch), palette.text_on_box,
                      painter.look().small);
  }
}

/// Draws the live microbatches up to a time as steps, with the memory limit as a dashed line.
void draw_curve(const Painter& painter, const Lanes& lanes, const Rect& rect,
                const std::vector<LivePoint>& curve, Picoseconds until, double highest, int limit) {
  const auto y = [&](double live) {
    return rect.bottom - rect.height() * static_cast<float>(live / highest);
  };
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const double live = curve[i].live;
    if (live <= 0) continue;
    const float left = lanes.x(curve[i].at);
    const float right = lanes.x(i + 1 < curve.size() ? curve[i + 1].at : until);
    const double within = limit > 0 ? std::min<double>(live, limit) : live;
    painter.fill({left, y(within), right, rect.bottom},
                 faded(colour_of(MemoryCategory::activations), 0.55f));
    if (live > within) painter.fill({left, y(live), right, y(within)}, palette.trouble);
  }
  if (limit > 0) painter.dashes(rect.left, rect.right, y(limit), palette.text_dim);
}

void draw_tip(const Painter& painter, const Lanes& lanes, const LabDrawing& drawing, int rank,
              const Rect& lane) {
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const auto index = static_cast<std::size_t>(rank);
  const std::vector<Action>& actions = drawing.result.schedule.actions[index];
  const std::vector<TimedAction>& timed = drawing.result.simulation.actions[index];
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Rect box{lanes.x(timed[i].start), lane.top, lanes.x(timed[i].end), lane.bottom};
    if (!box.contains(mouse)) continue;
    std::vector<std::string> lines{
        fmt::format("{} of microbatch {} on stage {}, rank {}", name_of(category(actions[i].op)),
                    actions[i].microbatch, actions[i].stage, rank),
        fmt::format("simulated: {} to {}", duration_words(timed[i].start),
                    duration_words(timed[i].end))};
    if (drawing.observed) {
      const TimedAction& seen = drawing.observed->actions[index][i];
      lines.push_back(
          fmt::format("observed: {} to {}", duration_words(seen.start), duration_words(seen.end)));
    }
    return tip_outside(painter, box, lanes.drawn(drawing), true, lines);
  }
}

}  // namespace

float lab_names_width(const Painter& painter) {
  return painter.px(names_width);
}

void draw_lab_axis(const Painter& painter, const Rect& rect, Picoseconds end) {
  const Look& look = painter.look();
  const float left = rect.left + lab_names_width(painter);
  const float width = rect.right - left;
  if (width < painter.px(axis_mark)) return;
  const double spacing =
      round_spacing(static_cast<double>(end) * static_cast<double>(painter.px(axis_mark) / width));
  for (double at = 0; at <= static_cast<double>(end); at += spacing) {
    const float x = left + width * static_cast<float>(at / static_cast<double>(end));
    painter.line(x, rect.top, x, rect.bottom, palette.grid);
    const std::string words = axis_words(at, spacing);
    if (x + painter.px(3) + painter.text_width(words, look.small) <= rect.right)
      painter.text(x + painter.px(3), rect.top, words, palette.text_dim, look.small);
  }
}

void draw_lab_schedule(const Painter& painter, const Rect& rect, const LabDrawing& drawing) {
  const Look& look = painter.look();
  const Lanes lanes{painter, rect, drawing};
  const LabResult& result = drawing.result;
  const int named = std::max(1, static_cast<int>(std::ceil(size_of(look.small) / lanes.row)));
  const double highest =
      std::max<double>({1, result.peak, static_cast<double>(drawing.memory_limit)});
  for (int rank = 0; rank < result.schedule.ranks; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    const Rect lane = lanes.lane(painter, rank);
    painter.fill(lane, palette.lane);
    painter.hatch(lane, palette.idle_hatch);
    if (rank % named == 0)
      painter.text(rect.left, (lane.top + lane.bottom - size_of(look.small)) / 2,
                   fmt::format("rank {}", rank), palette.text_dim, look.small);
    const std::vector<Action>& actions = result.schedule.actions[index];
    Rect simulated = lane;
    if (drawing.observed) {
      simulated.bottom = lane.top + simulated_share * lane.height();
      const Rect observed{lane.left, simulated.bottom + 1, lane.right, lane.bottom};
      draw_actions(painter, lanes, observed, actions, drawing.observed->actions[index], false);
      painter.line(lane.left, simulated.bottom, lane.right, simulated.bottom, palette.background);
    }
    draw_actions(painter, lanes, simulated, actions, result.simulation.actions[index], true);
    const bool over = std::ranges::count(result.over_limit, rank) > 0;
    if (lanes.curve > 0)
      draw_curve(painter, lanes,
                 {lane.left, lane.bottom + 1, lane.right, lane.bottom + lanes.curve},
                 result.live[index], result.simulation.makespan, highest, drawing.memory_limit);
    else if (over)
      painter.fill({lane.left, lane.bottom - painter.px(over_line), lane.right, lane.bottom},
                   palette.trouble);
  }
  for (int rank = 0; rank < result.schedule.ranks; ++rank)
    if (const Rect lane = lanes.lane(painter, rank); lane.contains(ImGui::GetIO().MousePos))
      draw_tip(painter, lanes, drawing, rank, lane);
}

}  // namespace lockstep::viz
