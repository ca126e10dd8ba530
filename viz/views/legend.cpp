#include "viz/views/legend.h"

#include <algorithm>

#include "viz/data/step/mean_step.h"
#include "viz/views/draw.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t most_axes = 6;
constexpr std::size_t spans_looked_at = 200;

/// Returns whether backward passes are split. The first rank's last spans show it.
bool splits_backward(const Timeline& timeline) {
  if (timeline.ranks().empty()) return false;
  const Lane* compute = timeline.ranks().front()->compute();
  if (!compute || compute->rows(Band::action).empty()) return false;
  const SpanRow& row = compute->rows(Band::action).front();
  for (std::size_t i = row.size() - std::min(row.size(), spans_looked_at); i < row.size(); ++i)
    if (row[i].category == Category::backward_weight) return true;
  return false;
}

}  // namespace

std::vector<LegendEntry> legend_of(const Model& model, const std::vector<std::string>& axes,
                                   const Model* compared) {
  const bool splits = splits_backward(model.timeline);
  const bool other_splits = compared ? splits_backward(compared->timeline) : splits;
  std::vector<LegendEntry> legend{{.name = "forward", .colour = palette.forward}};
  if (!splits || !other_splits) legend.push_back({.name = "backward", .colour = palette.backward});
  if (splits || other_splits) {
    legend.push_back({.name = "input gradient", .colour = palette.backward_input});
    legend.push_back({.name = "weight gradient", .colour = palette.backward_weight});
  }
  legend.push_back({.name = "optimizer", .colour = palette.optimizer});
  legend.push_back({.name = "communication", .colour = palette.communication});
  const auto add_causes = [&](const char* heading, std::initializer_list<StepPart> parts,
                              bool own) {
    for (const StepPart part : parts)
      legend.push_back({.heading = part == *parts.begin() ? heading : "",
                        .name = name_of(part),
                        .colour = own ? colour_of(part) : palette.text_dim,
                        .hatch = hatch_of(part)});
  };
  if (!axes.empty()) {
    const std::vector<int> slots = axis_slots(axes);
    for (std::size_t i = 0; i < std::min(axes.size(), most_axes); ++i)
      legend.push_back({.heading = i == 0 ? "exposed wait:" : "",
                        .name = std::string{beginning(axes[i])},
                        .colour = colour_of(StepPart::transfer, slots[i]),
                        .hatch = hatch_of(StepPart::transfer)});
    // These causes occur on every axis, so their entries do not take the colour of one.
    add_causes("", {StepPart::transfer, StepPart::latency, StepPart::late_peer}, false);
  }
  if (model.contents.pipeline || (compared && compared->contents.pipeline))
    add_causes("bubble:", {StepPart::warm_up, StepPart::waiting, StepPart::cool_down}, true);
  add_causes("", {StepPart::other}, true);
  return legend;
}

}  // namespace lockstep::viz
