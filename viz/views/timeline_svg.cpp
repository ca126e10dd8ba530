#include "viz/views/timeline_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/data/folding.h"
#include "viz/views/theme.h"

namespace lockstep::viz {
namespace {

constexpr double names_width = 150, edge = 10;
constexpr double axis_height = 24, steps_height = 18;
constexpr double mark_spacing = 110;
constexpr double font_size = 11;
constexpr double digit_width = 6.5;          // about, at this size
constexpr std::ptrdiff_t most_arrows = 300;  // as on the screen
constexpr std::size_t most_explained = 512;
constexpr float least_lanes = 400;  // pixels of height of a layout without a screen

std::string escaped(std::string_view text) {
  std::string result;
  for (const char each : text) {
    if (each == '<')
      result += "&lt;";
    else if (each == '>')
      result += "&gt;";
    else if (each == '&')
      result += "&amp;";
    else if (each == '"')
      result += "&quot;";
    else if (static_cast<unsigned char>(each) >= 0x20)
      result += each;
  }
  return result;
}

std::string hex(ImU32 colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour & 0xff, (colour >> 8) & 0xff,
                     (colour >> 16) & 0xff);
}

double opacity_of(ImU32 colour) {
  return static_cast<double>((colour >> IM_COL32_A_SHIFT) & 0xff) / 255;
}

class Svg {
 public:
  explicit Svg(double width, double height) {
    put("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"DejaVu Sans, sans-serif\" "
        "font-size=\"{2}\">\n",
        width, height, font_size);
    // One hatch per part of idle time, as on the screen.
    put("<defs>\n");
    const auto add = [&](const std::string& name, ImU32 colour) {
      hatch(name, mixed(colours::lane, colour, 0.22f), colour, 0.5);
    };
    for (int part = 0; part < step_part_count; ++part)
      add(name_of_hatch(static_cast<StepPart>(part), -1), colour_of(static_cast<StepPart>(part)));
    for (int slot = 0; slot < axis_slot_count; ++slot)
      add(name_of_hatch(StepPart::transfer, slot), colour_of(StepPart::transfer, slot));
    add("wait", colours::wait);
    hatch("idle", colours::lane, colours::idle_hatch, opacity_of(colours::idle_hatch));
    put("</defs>\n");
    rect(0, 0, width, height, hex(colours::background));
  }
  template <class... Arguments>
  void put(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
  }
  void rect(double left, double top, double right, double bottom, const std::string& fill,
            double opacity = 1, std::string_view title = {}) {
    if (right <= left) return;
    put("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"", left, top,
        right - left, bottom - top, fill);
    if (opacity < 1) put(" fill-opacity=\"{:.3f}\"", opacity);
    if (title.empty()) {
      put("/>\n");
    } else {
      put("><title>{}</title></rect>\n", escaped(title));
    }
  }
  void line(double x0, double y0, double x1, double y1, ImU32 colour) {
    put("<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" stroke=\"{}\" "
        "stroke-opacity=\"{:.3f}\"/>\n",
        x0, y0, x1, y1, hex(colour), opacity_of(colour));
  }
  /// Writes text around a middle height; `anchor` is start, middle or end.
  void text(double x, double middle, std::string_view words, ImU32 colour, const char* anchor) {
    put("<text x=\"{:.2f}\" y=\"{:.2f}\" fill=\"{}\" text-anchor=\"{}\">{}</text>\n", x,
        middle + 0.36 * font_size, hex(colour), anchor, escaped(words));
  }
  static std::string name_of_hatch(StepPart part, int slot) {
    return slot < 0 ? fmt::format("part{}", static_cast<int>(part)) : fmt::format("axis{}", slot);
  }
  std::string finish() {
    put("</svg>\n");
    return std::move(text_);
  }

 private:
  void hatch(const std::string& name, ImU32 ground, ImU32 lines, double opacity) {
    put("<pattern id=\"{}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">"
        "<rect width=\"8\" height=\"8\" fill=\"{}\"/><path d=\"M-1,1 l2,-2 M0,8 l8,-8 M7,9 l2,-2\" "
        "stroke=\"{}\" stroke-opacity=\"{:.3f}\" stroke-width=\"1.4\"/></pattern>\n",
        name, hex(ground), hex(lines), opacity);
  }
  std::string text_;
};

/// Draws the rows of a band, as the timeline does: nested rows are lower than their actions.
void draw_rows(Svg& svg, const Timeline& timeline, const std::vector<SpanRow>& rows,
               const TimeWindow& window, double left, double right, double top, double bottom) {
  std::vector<SpanBox> boxes;
  for (std::size_t i = 0; i < rows.size() && static_cast<double>(i) < bottom - top; ++i) {
    const double row_top = i == 0 ? top : bottom - (bottom - top) / (2 * static_cast<double>(i));
    fold(rows[i], window, right - left, boxes);
    for (const bool waits : {true, false}) {
      for (const SpanBox& box : boxes) {
        if ((box.category == Category::wait) != waits) continue;
        const double x0 = left + box.left, x1 = left + box.right;
        if (waits) {
          svg.rect(x0, i == 0 ? top : row_top, x1, bottom, "url(#wait)", box.opacity);
          continue;
        }
        const bool odd = box.span && box.span->microbatch >= 0 && box.span->microbatch % 2 == 1;
        const ImU32 colour = colour_of(box.category);
        svg.rect(x0, row_top, x1, bottom, hex(odd ? mixed(colour, IM_COL32_WHITE, 0.14f) : colour),
                 box.opacity,
                 box.whole ? fmt::format("{}, {}", timeline.name(box.span->name),
                                         duration_words(box.span->duration()))
                           : std::string{});
        if (!box.whole || box.span->microbatch < 0) continue;
        const std::string number = std::to_string(box.span->microbatch);
        if (x1 - x0 > digit_width * static_cast<double>(number.size()) + 2 &&
            bottom - row_top >= font_size)
          svg.text((x0 + x1) / 2, (row_top + bottom) / 2, number, colours::text_on_box, "middle");
      }
    }
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
  const TimeWindow& window = model.viewport.window();
  const double left = names_width, right = std::floor(static_cast<double>(width) - edge);
  const double lanes = axis_height + steps_height + 4;
  Svg svg{static_cast<double>(width), lanes + static_cast<double>(layout.height()) + edge};
  const auto x = [&](Picoseconds time) {
    return left + (static_cast<double>(time) - window.begin) / window.width() * (right - left);
  };
  const auto within = [&](double at) { return std::clamp(at, left, right); };
  const double bottom = lanes + static_cast<double>(layout.height());

  svg.text(edge, axis_height / 2, timeline.run().lesson, colours::text, "start");
  const double least = window.width() * mark_spacing / (right - left);
  const double spacing = round_spacing(least);
  for (double n = std::ceil(window.begin / spacing); n * spacing < window.end; ++n) {
    const double at = left + (n * spacing - window.begin) / window.width() * (right - left);
    svg.line(at, axis_height, at, bottom, colours::grid);
    svg.text(at, axis_height / 2, axis_words(n == 0 ? 0 : n * spacing, spacing), colours::text_dim,
             "middle");
  }
  std::vector<const ExplainedStep*> explained;
  model.explanations.update(std::chrono::hours{1});
  for (const StepWindow& step : timeline.steps()) {
    const double x0 = within(x(step.start)), x1 = within(x(step.end));
    if (x1 - x0 < 1) continue;
    svg.rect(x0, axis_height, x1 - 1, axis_height + steps_height,
             hex(step.step % 2 == 0 ? colours::step_even : colours::step_odd));
    const std::string name = fmt::format("step {}", step.step);
    if (x1 - x0 > digit_width * static_cast<double>(name.size()))
      svg.text((x0 + x1) / 2, axis_height + steps_height / 2, name, colours::text_dim, "middle");
    if (explained.size() < most_explained)
      if (const ExplainedStep* found = model.explanations.find(timeline, step))
        explained.push_back(found);
  }

  for (const RankGroup& group : layout.groups()) {
    const Strip& first = layout.strips()[group.first];
    svg.text(left - edge, lanes + static_cast<double>(first.top + first.height / 2),
             fmt::format("rank {}", group.rank->rank), colours::text, "end");
  }
  std::vector<IdleBox> idle;
  for (const Strip& strip : layout.strips()) {
    const double top = lanes + static_cast<double>(strip.top);
    const double low = lanes + static_cast<double>(strip.bottom());
    const double run_left = within(x(timeline.start())), run_right = within(x(timeline.end()));
    if (strip.kind == StripKind::compute) {
      svg.rect(run_left, top, run_right, low, "url(#idle)");
      idle.clear();
      for (const ExplainedStep* step : explained)
        if (const RankAccount* rank = step->account.find(strip.rank->rank))
          fold_idle(rank->pieces, axis_slots(step->account.axes), window, right - left, idle);
      for (const IdleBox& box : idle)
        svg.rect(left + box.left, top, left + box.right, low,
                 fmt::format("url(#{})", Svg::name_of_hatch(box.part, box.slot)));
    } else {
      svg.rect(run_left, top, run_right, low, hex(colours::lane), 0.6);
      if (strip.kind == StripKind::communication && strip.height >= static_cast<float>(font_size))
        svg.text(left - edge, (top + low) / 2, strip.name(), colours::text_faint, "end");
    }
    const Band band = strip.kind == StripKind::kernels ? Band::kernel : Band::action;
    for (const Lane* lane : strip.lanes)
      draw_rows(svg, timeline, lane->rows(band), window, left, right, top, low);
  }

  const auto& messages = timeline.messages();
  const auto visible = [&](const Message& message) {
    return static_cast<double>(message.received) > window.begin &&
           static_cast<double>(message.sent) < window.end;
  };
  if (std::ranges::count_if(messages, visible) > most_arrows) return svg.finish();
  for (const Message& message : messages) {
    const float from = layout.anchor(message.from_rank, message.from_lane);
    const float to = layout.anchor(message.to_rank, message.to_lane);
    if (!visible(message) || from < 0 || to < 0 || from == to) continue;
    svg.line(within(x(message.sent)), lanes + static_cast<double>(from),
             within(x(message.received)), lanes + static_cast<double>(to), colours::message);
  }
  return svg.finish();
}

}  // namespace lockstep::viz
