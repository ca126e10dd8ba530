#include "viz/views/svg.h"

#include <cmath>
#include <numbers>

namespace lockstep::viz {
namespace {

constexpr double arrow_size = 4.5, least_arrow = 8;
constexpr double idle_lines = 0.5;  // opacity, as on the screen

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

}  // namespace

std::string hex(ImU32 colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour & 0xff, (colour >> 8) & 0xff,
                     (colour >> 16) & 0xff);
}

double opacity_of(ImU32 colour) {
  return static_cast<double>((colour >> IM_COL32_A_SHIFT) & 0xff) / 255;
}

Svg::Svg(double width, double height) {
  put("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"DejaVu Sans, sans-serif\" "
      "font-size=\"{2}\">\n",
      width, height, font_size);
  rect(0, 0, width, height, hex(palette.background));
}

void Svg::rect(double left, double top, double right, double bottom, const std::string& fill,
               double opacity, std::string_view title) {
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

void Svg::frame(double left, double top, double right, double bottom, ImU32 colour) {
  put("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"none\" "
      "stroke=\"{}\"/>\n",
      left, top, right - left, bottom - top, hex(colour));
}

void Svg::line(double x0, double y0, double x1, double y1, ImU32 colour) {
  put("<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" stroke=\"{}\" "
      "stroke-opacity=\"{:.3f}\"/>\n",
      x0, y0, x1, y1, hex(colour), opacity_of(colour));
}

void Svg::arrow(double x0, double y0, double x1, double y1, ImU32 colour) {
  line(x0, y0, x1, y1, colour);
  const double length = std::hypot(x1 - x0, y1 - y0);
  if (length < least_arrow) return;
  const double x = (x1 - x0) / length * arrow_size, y = (y1 - y0) / length * arrow_size;
  put("<path d=\"M{:.2f},{:.2f} L{:.2f},{:.2f} L{:.2f},{:.2f} Z\" fill=\"{}\" "
      "fill-opacity=\"{:.3f}\"/>\n",
      x1, y1, x1 - 1.6 * x - 0.6 * y, y1 - 1.6 * y + 0.6 * x, x1 - 1.6 * x + 0.6 * y,
      y1 - 1.6 * y - 0.6 * x, hex(colour), opacity_of(colour));
  put("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"2\" fill=\"{}\" fill-opacity=\"{:.3f}\"/>\n", x0, y0,
      hex(colour), opacity_of(colour));
}

void Svg::text(double x, double middle, std::string_view words, ImU32 colour, const char* anchor) {
  put("<text x=\"{:.2f}\" y=\"{:.2f}\" fill=\"{}\" text-anchor=\"{}\">{}</text>\n", x,
      middle + 0.36 * font_size, hex(colour), anchor, escaped(words));
}

std::string Svg::idle(ImU32 colour, Hatch hatch) {
  return pattern(mixed(palette.lane, colour, idle_fill_share), colour, idle_lines, hatch);
}

std::string Svg::lane() {
  return pattern(palette.lane, palette.idle_hatch, opacity_of(palette.idle_hatch), {});
}

std::string Svg::pattern(ImU32 ground, ImU32 lines, double opacity, Hatch hatch) {
  // The pattern's lines are drawn horizontally and then rotated.
  const auto x = static_cast<double>(hatch.x), y = static_cast<double>(hatch.y);
  const double period = static_cast<double>(hatch_pixels) / std::hypot(x, y);
  const double angle = std::atan2(-x, y) * 180 / std::numbers::pi;
  const std::string definition = fmt::format(
      "width=\"8\" height=\"{0:.3f}\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate({1:.2f})\"><rect width=\"8\" height=\"{0:.3f}\" fill=\"{2}\"/>"
      "<rect width=\"8\" height=\"{3:.3f}\" fill=\"{4}\" fill-opacity=\"{5:.3f}\"/></pattern>",
      period, angle, hex(ground), period / 4, hex(lines), opacity);
  const auto [found, fresh] =
      patterns_.try_emplace(definition, fmt::format("hatch{}", patterns_.size()));
  return fmt::format("url(#{})", found->second);
}

std::string Svg::finish() {
  put("<defs>\n");
  for (const auto& [definition, name] : patterns_) put("<pattern id=\"{}\" {}\n", name, definition);
  put("</defs>\n</svg>\n");
  return std::move(text_);
}

}  // namespace lockstep::viz
