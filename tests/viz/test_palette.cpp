// Tests the palettes for colour-blind users, and their contrast.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "viz/views/theme.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

using Rgb = std::array<double, 3>;  ///< linear

Rgb linear(ImU32 colour) {
  Rgb rgb{};
  for (int i = 0; i < 3; ++i) {
    const double value = static_cast<double>((colour >> (8 * i)) & 0xff) / 255;
    rgb[static_cast<std::size_t>(i)] =
        value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  }
  return rgb;
}

double luminance(const Rgb& rgb) {
  return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2];
}

/// The contrast ratio of WCAG 2.
double contrast(ImU32 a, ImU32 b) {
  const double one = luminance(linear(a)) + 0.05, other = luminance(linear(b)) + 0.05;
  return std::max(one, other) / std::min(one, other);
}

/// The appearance of a colour under each kind of colour vision: normal, protanopia, deuteranopia
/// and tritanopia, by the matrices for full severity of Machado, Oliveira and Fernandes (2009), "A
/// Physiologically-based Model for Simulation of Color Vision Deficiency".
using Matrix = std::array<Rgb, 3>;
constexpr Matrix visions[] = {
    {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
    {{{0.152286, 1.052583, -0.204868},
      {0.114503, 0.786281, 0.099216},
      {-0.003882, -0.048116, 1.051998}}},
    {{{0.367322, 0.860646, -0.227968},
      {0.280085, 0.672501, 0.047413},
      {-0.011820, 0.042940, 0.968881}}},
    {{{1.255528, -0.076749, -0.178779},
      {-0.078411, 0.930809, 0.147602},
      {0.004733, 0.691367, 0.303900}}},
};

Rgb seen(ImU32 colour, const Matrix& vision) {
  const Rgb rgb = linear(colour);
  Rgb result{};
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t i = 0; i < 3; ++i) result[row] += vision[row][i] * rgb[i];
  return result;
}

/// The distance in CIE L*a*b* (CIE 1976); 2.3 is just noticeable.
double distance(const Rgb& one, const Rgb& other) {
  const auto lab = [](const Rgb& rgb) {
    const auto f = [](double t) {
      return t > 216.0 / 24389 ? std::cbrt(t) : (24389.0 / 27 * t + 16) / 116;
    };
    const double x = f((0.4124 * rgb[0] + 0.3576 * rgb[1] + 0.1805 * rgb[2]) / 0.9505);
    const double y = f(0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]);
    const double z = f((0.0193 * rgb[0] + 0.1192 * rgb[1] + 0.9505 * rgb[2]) / 1.089);
    return Rgb{116 * y - 16, 500 * (x - y), 200 * (y - z)};
  };
  const Rgb a = lab(one), b = lab(other);
  return std::sqrt((a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]) +
                   (a[2] - b[2]) * (a[2] - b[2]));
}

}  // namespace

TEST_CASE("kinds of work remain distinct with any kind of colour vision") {
  for (const Palette* each : {&dark_palette, &light_palette}) {
    const std::pair<std::string, ImU32> kinds[] = {{"forward", each->forward},
                                                   {"backward", each->backward},
                                                   {"weight", each->backward_weight},
                                                   {"recompute", each->recompute},
                                                   {"optimizer", each->optimizer},
                                                   {"communication", each->communication},
                                                   {"idle", each->lane}};
    for (const Matrix& vision : visions) {
      for (const auto& [name, colour] : kinds) {
        for (const auto& [other_name, other] : kinds) {
          if (name == other_name) continue;
          CAPTURE(each == &light_palette);
          CAPTURE(&vision - visions);
          CAPTURE(name);
          CAPTURE(other_name);
          CHECK(distance(seen(colour, vision), seen(other, vision)) > 10);
        }
      }
    }
  }
}

TEST_CASE("the parts of a step remain distinct with any kind of colour vision") {
  for (const Palette* each : {&dark_palette, &light_palette}) {
    std::vector<ImU32> parts{each->forward, each->optimizer, each->bubble, each->other,
                             each->ended};
    parts.insert(parts.end(), each->axes.begin(), each->axes.end());
    for (const Matrix& vision : visions)
      for (std::size_t i = 0; i < parts.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) {
          CAPTURE(each == &light_palette);
          CAPTURE(&vision - visions);
          CAPTURE(i);
          CAPTURE(j);
          CHECK(distance(seen(parts[i], vision), seen(parts[j], vision)) > 10);
        }
    // The axes' names are drawn on their colours.
    for (const ImU32 colour : each->axes) CHECK(contrast(each->text_on_box, colour) > 4.5);
    CHECK(contrast(each->text_on_box, each->bubble) > 4.5);
    CHECK(contrast(each->text, each->other) > 3);
    CHECK(contrast(each->text, each->ended) > 4.5);
  }
}

TEST_CASE("text is legible in both themes") {
  for (const Palette* each : {&dark_palette, &light_palette}) {
    CAPTURE(each == &light_palette);
    for (const ImU32 ground : {each->background, each->panel, each->tip, each->button}) {
      CHECK(contrast(each->text, ground) > 7);
      CHECK(contrast(each->text_dim, ground) > 4.5);
    }
    CHECK(contrast(each->text_faint, each->panel) > 3);
    for (const ImU32 box : {each->forward, each->backward, each->backward_weight, each->recompute,
                            each->optimizer, each->communication, each->kernel, each->accent})
      CHECK(contrast(each->text_on_box, box) > 4.5);
    // Objects drawn over boxes contrast with their background.
    CHECK(contrast(each->critical_path, each->lane) > 3);
    CHECK(contrast(each->highlight, each->lane) > 7);
  }
}
