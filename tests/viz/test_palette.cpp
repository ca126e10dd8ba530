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

/// A colour and its name, for messages.
using Named = std::pair<std::string, ImU32>;

/// Requires that any two colours remain at least `least` apart with any kind of colour vision.
void check_distinct(const std::vector<Named>& colours, double least) {
  for (const Matrix& vision : visions)
    for (std::size_t i = 0; i < colours.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        CAPTURE(&vision - visions);
        CAPTURE(colours[i].first);
        CAPTURE(colours[j].first);
        CHECK(distance(seen(colours[i].second, vision), seen(colours[j].second, vision)) > least);
      }
}

constexpr const Palette* themes[] = {&dark_palette, &light_palette};

}  // namespace

TEST_CASE("kinds of work remain distinct with any kind of colour vision") {
  for (const Palette* each : themes) {
    CAPTURE(each == &light_palette);
    check_distinct({{"forward", each->forward},
                    {"backward", each->backward},
                    {"weight", each->backward_weight},
                    {"recompute", each->recompute},
                    {"optimizer", each->optimizer},
                    {"communication", each->communication},
                    {"idle", each->lane}},
                   10);
  }
}

TEST_CASE("the parts of a step remain distinct with any kind of colour vision") {
  for (const Palette* each : themes) {
    CAPTURE(each == &light_palette);
    std::vector<Named> parts{{"forward", each->forward},
                             {"optimizer", each->optimizer},
                             {"bubble", each->bubble},
                             {"other", each->other},
                             {"ended", each->ended}};
    for (std::size_t i = 0; i < each->axes.size(); ++i)
      parts.emplace_back("axis " + std::to_string(i), each->axes[i]);
    check_distinct(parts, 10);
    // The axes' names are drawn on their colours.
    for (const ImU32 colour : each->axes) CHECK(contrast(each->text_on_box, colour) > 4.5);
    CHECK(contrast(each->text_on_box, each->bubble) > 4.5);
    CHECK(contrast(each->text, each->other) > 4.5);
    CHECK(contrast(each->text, each->ended) > 4.5);
  }
}

TEST_CASE("causes of idle time differ in colour with any kind of colour vision, and in angle") {
  for (const Palette* each : themes) {
    CAPTURE(each == &light_palette);
    std::vector<Named> causes{{"waiting", each->wait},
                              {"warm-up", each->warm_up},
                              {"cool-down", each->cool_down},
                              {"other", each->other},
                              {"lane", each->lane}};
    for (std::size_t i = 0; i < each->axes.size(); ++i)
      causes.emplace_back("axis " + std::to_string(i), each->axes[i]);
    check_distinct(causes, 12);
  }
  const StepPart parts[] = {StepPart::warm_up,  StepPart::waiting, StepPart::cool_down,
                            StepPart::transfer, StepPart::latency, StepPart::late_peer};
  for (const StepPart part : parts) {
    CHECK(hatch_of(part) != hatch_of(StepPart::other));
    for (const StepPart other : parts)
      if (part != other) CHECK(hatch_of(part) != hatch_of(other));
    // Steep means a bubble, flat means exposed communication.
    CHECK((std::abs(hatch_of(part).x) > std::abs(hatch_of(part).y)) == is_bubble(part));
  }
}

TEST_CASE("kinds of memory, and groups of ranks, remain distinct with any kind of colour vision") {
  for (const Palette* each : themes) {
    CAPTURE(each == &light_palette);
    std::vector<Named> kinds{{"lane", each->lane}};
    for (int i = 0; i < memory_category_count; ++i)
      kinds.emplace_back(name_of(static_cast<MemoryCategory>(i)),
                         each->memory[static_cast<std::size_t>(i)]);
    check_distinct(kinds, 12);
    std::vector<Named> groups{{"lane", each->lane}};
    for (std::size_t i = 0; i < group_colours.size(); ++i)
      groups.emplace_back("group " + std::to_string(i), group_colours[i]);
    check_distinct(groups, 20);
    // A group's colour is not one of a kind of work.
    for (const ImU32 colour : group_colours)
      for (const ImU32 work : {each->forward, each->backward, each->backward_weight,
                               each->recompute, each->optimizer, each->communication})
        CHECK(distance(seen(colour, visions[0]), seen(work, visions[0])) > 20);
  }
  for (std::size_t i = 0; i < 24; ++i) {
    CAPTURE(i);
    CHECK(contrast(ink_on(group_colour(i)), group_colour(i)) > 4.5);
  }
}

TEST_CASE("text is legible on everything that it is drawn on, in both themes") {
  for (const Palette* each : themes) {
    CAPTURE(each == &light_palette);
    const auto check = [&](std::vector<Named> texts, const std::vector<Named>& grounds) {
      for (const auto& [text, ink] : texts)
        for (const auto& [name, ground] : grounds) {
          CAPTURE(text);
          CAPTURE(name);
          CHECK(contrast(ink, ground) > 4.5);
        }
    };
    const std::vector<Named> plain{{"background", each->background},
                                   {"panel", each->panel},
                                   {"tip", each->tip},
                                   {"popup", each->popup},
                                   {"lane", each->lane}};
    std::vector<Named> raised = plain;
    raised.insert(
        raised.end(),
        {{"step_even", each->step_even}, {"step_odd", each->step_odd}, {"button", each->button}});
    std::vector<Named> everywhere = raised;
    everywhere.insert(everywhere.end(), {{"hovered", each->button_hovered},
                                         {"active", each->button_active},
                                         {"on", mixed(each->button, each->text, 0.12f)}});
    for (const ImU32 cause : {each->wait, each->warm_up, each->cool_down, each->other})
      everywhere.emplace_back("idle", mixed(each->lane, cause, idle_fill_share));
    for (const ImU32 axis : each->axes)
      everywhere.emplace_back("exposed", mixed(each->lane, axis, idle_fill_share));
    check({{"text", each->text}}, everywhere);
    check({{"dim", each->text_dim}}, raised);
    check({{"faint", each->text_faint}}, plain);
    const std::vector<Named> signals{{"accent", each->accent},
                                     {"wall clock", each->wall_clock},
                                     {"modelled clock", each->modelled_clock},
                                     {"trouble", each->trouble},
                                     {"live", each->live},
                                     {"mark", each->mark}};
    check(signals, {{"background", each->background}, {"panel", each->panel}});
    for (const auto& [name, colour] : signals) {
      CAPTURE(name);
      CHECK(contrast(colour, mixed(each->panel, colour, pill_share)) > 4.5);
    }
    for (const ImU32 ground : {each->accent, each->live, each->mark, each->trouble})
      CHECK(contrast(each->text_on_accent, ground) > 4.5);
    for (const ImU32 box : {each->forward, each->backward, each->backward_weight, each->recompute,
                            each->optimizer, each->communication, each->kernel})
      for (const float lighter : {0.0f, 0.14f})  // of odd microbatches
        CHECK(contrast(each->text_on_box, mixed(box, IM_COL32_WHITE, lighter)) > 4.5);
    // Objects drawn over boxes contrast with their background.
    CHECK(contrast(each->critical_path, each->lane) > 3);
    CHECK(contrast(each->highlight, each->lane) > 7);
  }
}
