#include "viz/views/timeline_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/data/layout/folding.h"
#include "viz/data/step/mean_step.h"
#include "viz/data/step/words.h"
#include "viz/views/legend.h"
#include "viz/views/status_view.h"
#include "viz/views/svg.h"

namespace lockstep::viz {
namespace {

constexpr double names_width = 150, edge = 10;
constexpr double head_height = 24, axis_height = 24, steps_height = 18;
constexpr double mark_spacing = 110;
constexpr double letter_from =
    90;  // pixels of width to write "F3" instead of "3", as on the screen
constexpr double legend_row = 20, swatch_width = 18, swatch_height = 12;
constexpr std::ptrdiff_t most_arrows = 300;  // as on the screen
constexpr std::size_t most_explained = 512;
constexpr float least_lanes = 400;  // pixels of height of a layout without a screen

/// Returns the approximate width of a text.
double width_of(std::string_view text) {
  return Svg::digit_width * static_cast<double>(std::ranges::count_if(text, [](char each) {
           return (static_cast<unsigned char>(each) & 0xc0) != 0x80;
         }));
}

/// The area in which time is drawn.
struct Plot {
  TimeWindow window;
  double left = 0, right = 0;
  double width() const { return right - left; }
  double x(double time) const { return left + (time - window.begin) / window.width() * width(); }
  double x(Picoseconds time) const { return x(static_cast<double>(time)); }
  double within(Picoseconds time) const { return std::clamp(x(time), left, right); }
};

void draw_idle(Svg& svg, const std::vector<IdleBox>& idle, const Plot& plot, double top,
               double bottom) {
  for (const IdleBox& box : idle)
    svg.rect(plot.left + box.left, top, plot.left + box.right, bottom,
             svg.idle(colour_of(box.part, box.slot), hatch_of(box.part)));
}

/// Draws the rows of a band, as the timeline does: nested rows are lower than their actions. Waits
/// have the hatch of their cause, which `idle` lists. From back to front: waits between actions,
/// idle time, actions.
void draw_rows(Svg& svg, const Timeline& timeline, const std::vector<SpanRow>& rows,
               const std::vector<IdleBox>& idle, const Plot& plot, double top, double bottom) {
  std::vector<SpanBox> boxes;
  const auto fill_of_wait = [&](const SpanBox& box) {
    const double middle = (box.left + box.right) / 2;
    const auto cause = std::ranges::find_if(
        idle, [&](const IdleBox& each) { return each.left <= middle && middle < each.right; });
    return cause == idle.end()
               ? svg.idle(palette.wait, {})
               : svg.idle(colour_of(cause->part, cause->slot), hatch_of(cause->part));
  };
  if (rows.empty()) draw_idle(svg, idle, plot, top, bottom);
  for (std::size_t i = 0; i < rows.size() && static_cast<double>(i) < bottom - top; ++i) {
    const double row_top = i == 0 ? top : bottom - (bottom - top) / (2 * static_cast<double>(i));
    fold(rows[i], plot.window, plot.width(), boxes);
    for (const bool waits : {true, false}) {
      if (i == 0 && !waits) draw_idle(svg, idle, plot, top, bottom);
      for (const SpanBox& box : boxes) {
        if ((box.category == Category::wait) != waits) continue;
        const double x0 = plot.left + box.left, x1 = plot.left + box.right;
        if (waits) {
          // A wait within an action stops all of it.
          svg.rect(x0, top, x1, bottom, fill_of_wait(box), box.opacity);
          continue;
        }
        const bool odd = box.span && box.span->microbatch >= 0 && box.span->microbatch % 2 == 1;
        const ImU32 colour = colour_of(box.category);
        svg.rect(x0, row_top, x1, bottom, hex(odd ? mixed(colour, IM_COL32_WHITE, 0.14f) : colour),
                 box.opacity,
                 box.whole ? fmt::format("{}, {}", timeline.name(box.span->name),
                                         duration_words(box.span->duration()))
                           : std::string{});
        if (!box.whole) continue;
        svg.line(x0 + 0.5, row_top, x0 + 0.5, bottom, mixed(colour, IM_COL32_BLACK, 0.45f));
        if (box.span->microbatch < 0) continue;
        std::string words = std::to_string(box.span->microbatch);
        if (const char letter = letter_of(box.category); letter != 0 && x1 - x0 >= letter_from)
          words = letter + words;
        if (x1 - x0 > width_of(words) + 2 && bottom - row_top >= Svg::font_size)
          svg.text((x0 + x1) / 2, (row_top + bottom) / 2, words, palette.text_on_box, "middle");
      }
    }
  }
}

/// Draws the entries from left to right, in as many rows as they need, and returns the bottom. If
/// `svg` is null, only computes it.
double draw_legend(Svg* svg, const std::vector<LegendEntry>& legend, double right, double top) {
  double x = edge, y = top + legend_row / 2;
  for (const LegendEntry& entry : legend) {
    const double heading = entry.heading.empty() ? 0 : width_of(entry.heading) + 6;
    const double width = heading + swatch_width + 5 + width_of(entry.name) + 12;
    if (x > edge && x + width > right) {
      x = edge;
      y += legend_row;
    }
    if (svg) {
      if (heading > 0) svg->text(x, y, entry.heading, palette.text_dim, "start");
      const double left = x + heading;
      svg->rect(left, y - swatch_height / 2, left + swatch_width, y + swatch_height / 2,
                entry.hatch ? svg->idle(entry.colour, *entry.hatch) : hex(entry.colour));
      svg->text(left + swatch_width + 5, y, entry.name, palette.text_dim, "start");
    }
    x += width;
  }
  return y + legend_row / 2;
}

void draw_axis(Svg& svg, const Plot& plot, Picoseconds origin, double bottom) {
  const double middle = head_height + axis_height / 2;
  const double spacing = round_spacing(plot.window.width() * mark_spacing / plot.width());
  const auto first = static_cast<double>(origin);
  for (double n = std::ceil((plot.window.begin - first) / spacing);
       first + n * spacing < plot.window.end; ++n) {
    const double at = plot.x(first + n * spacing);
    svg.line(at, head_height + axis_height, at, bottom, palette.grid);
    svg.text(at, middle, axis_words(n == 0 ? 0 : n * spacing, spacing), palette.text_dim, "middle");
  }
}

void draw_messages(Svg& svg, const Timeline& timeline, const StripLayout& layout, const Plot& plot,
                   double lanes) {
  const auto& messages = timeline.messages();
  const auto visible = [&](const TimelineMessage& message) {
    return static_cast<double>(message.received) > plot.window.begin &&
           static_cast<double>(message.sent) < plot.window.end;
  };
  if (std::ranges::count_if(messages, visible) > most_arrows) return;
  for (const TimelineMessage& message : messages) {
    const float from = layout.anchor(message.from_rank, message.from_lane);
    const float to = layout.anchor(message.to_rank, message.to_lane);
    if (!visible(message) || from < 0 || to < 0 || from == to) continue;
    // If an arrow leaves the picture, its head is outside.
    const double x0 = plot.within(message.sent), x1 = plot.within(message.received);
    const double y0 = lanes + static_cast<double>(from), y1 = lanes + static_cast<double>(to);
    if (static_cast<double>(message.received) <= plot.window.end)
      svg.arrow(x0, y0, x1, y1, palette.message);
    else
      svg.line(x0, y0, x1, y1, palette.message);
  }
}

}  // namespace

StripLayout whole_layout(const Timeline& timeline) {
  StripLayout layout;
  layout.update(timeline, least_lanes, 1);
  const bool collapsed =
      std::ranges::any_of(layout.groups(), [](const RankGroup& group) { return group.collapsed; });
  if (collapsed) {
    layout.toggle_all();
    if (std::ranges::any_of(layout.groups(),
                            [](const RankGroup& group) { return group.collapsed; }))
      layout.toggle_all();
    layout.update(timeline, least_lanes, 1);
  }
  return layout;
}

std::string timeline_svg(Model& model, const StripLayout& layout, int width) {
  const Timeline& timeline = model.timeline;
  const Plot plot{model.viewport.window(), names_width, width - edge};
  const double lanes = head_height + axis_height + steps_height + 2;
  const double bottom = lanes + static_cast<double>(layout.height());
  const double steps = head_height + axis_height;

  std::vector<const ExplainedStep*> explained;
  std::vector<std::string> axes;
  model.explanations.update(std::chrono::hours{1});
  for (const StepWindow& step : timeline.steps()) {
    if (explained.size() == most_explained) break;
    if (plot.within(step.end) - plot.within(step.start) < 1) continue;
    const ExplainedStep* found = model.explanations.find(timeline, step);
    if (!found) continue;
    explained.push_back(found);
    join_axes(axes, found->account.axes);
  }
  model.contents = contents_of(timeline);
  const auto legend = legend_of(model, axes);
  Svg svg{static_cast<double>(width),
          draw_legend(nullptr, legend, plot.right, bottom + edge) + edge};

  svg.text(edge, head_height / 2, timeline.run().lesson, palette.text, "start");
  svg.text(plot.right, head_height / 2, clock_words(timeline.run()), palette.text_dim, "end");
  draw_axis(svg, plot, model.origin, bottom);
  for (const StepWindow& step : timeline.steps()) {
    const double x0 = plot.within(step.start), x1 = plot.within(step.end);
    if (x1 - x0 < 1) continue;
    svg.rect(x0, steps, x1 - 1, steps + steps_height,
             hex(step.step % 2 == 0 ? palette.step_even : palette.step_odd));
    const std::string name = fmt::format("step {}", step.step);
    if (x1 - x0 > width_of(name))
      svg.text((x0 + x1) / 2, steps + steps_height / 2, name, palette.text_dim, "middle");
  }

  for (const RankGroup& group : layout.groups()) {
    const Strip& first = layout.strips()[group.first];
    svg.text(plot.left - edge, lanes + static_cast<double>(first.top + first.height / 2),
             fmt::format("rank {}", group.rank->rank), palette.text, "end");
  }
  std::vector<IdleBox> idle;
  for (const Strip& strip : layout.strips()) {
    const double top = lanes + static_cast<double>(strip.top);
    const double low = lanes + static_cast<double>(strip.bottom());
    const double run_left = plot.within(timeline.start()), run_right = plot.within(timeline.end());
    idle.clear();
    if (strip.kind == StripKind::compute) {
      svg.rect(run_left, top, run_right, low, svg.lane());
      for (const ExplainedStep* step : explained)
        if (const RankAccount* rank = step->account.find(strip.rank->rank))
          fold_idle(rank->pieces, axis_slots(step->account.axes), plot.window, plot.width(), idle);
    } else {
      svg.rect(run_left, top, run_right, low, hex(palette.lane), 0.6);
      if (strip.kind == StripKind::communication &&
          strip.height >= static_cast<float>(Svg::font_size))
        svg.text(plot.left - edge, (top + low) / 2, strip.name(), palette.text_faint, "end");
    }
    const Band band = strip.kind == StripKind::kernels ? Band::kernel : Band::action;
    for (const Lane* lane : strip.lanes)
      draw_rows(svg, timeline, lane->rows(band), idle, plot, top, low);
  }
  draw_messages(svg, timeline, layout, plot, lanes);
  draw_legend(&svg, legend, plot.right, bottom + edge);
  return svg.finish();
}

}  // namespace lockstep::viz
