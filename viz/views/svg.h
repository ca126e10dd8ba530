#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "viz/views/theme.h"

namespace lockstep::viz {

/// Returns a colour in SVG's notation, without its opacity.
std::string hex(ImU32 colour);
/// Returns a colour's opacity: 0 to 1.
double opacity_of(ImU32 colour);

/// Writes an SVG picture.
class Svg {
 public:
  static constexpr double font_size = 11;
  static constexpr double digit_width =
      6.9;  ///< approximately, and on average for other letters too

  Svg(double width, double height);

  void rect(double left, double top, double right, double bottom, const std::string& fill,
            double opacity = 1, std::string_view title = {});
  void frame(double left, double top, double right, double bottom, ImU32 colour);
  void line(double x0, double y0, double x1, double y1, ImU32 colour);
  /// Draws a line with a dot at its start and an arrowhead at its end.
  void arrow(double x0, double y0, double x1, double y1, ImU32 colour);
  /// Writes text around a middle height; `anchor` is start, middle or end.
  void text(double x, double middle, std::string_view words, ImU32 colour, const char* anchor);
  /// Returns the fill of idle time with this colour and hatch.
  std::string idle(ImU32 colour, Hatch hatch);
  /// Returns the fill of the background of a lane.
  std::string lane();
  /// Returns the picture.
  std::string finish();

 private:
  template <class... Arguments>
  void put(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
  }
  std::string pattern(ImU32 ground, ImU32 lines, double opacity, Hatch hatch);

  std::string text_;
  std::map<std::string, std::string> patterns_;  ///< names by definition
};

}  // namespace lockstep::viz
