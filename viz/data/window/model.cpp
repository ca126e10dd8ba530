#include "viz/data/window/model.h"

#include <algorithm>

namespace lockstep::viz {

void forget_run(Model& model) {
  model.hovered = model.selected = {};
  model.chain = {};
  model.described = nullptr;
  model.bubbles.clear();
  model.explanations.clear();
  model.ghosts.clear();
  model.advice = {};
  model.playback = {};
  model.view.locked_step.reset();
  model.view.range.reset();
  model.view.names.clear();
  model.view.durations.clear();
  model.view.chosen_kind.reset();
  model.view.wanted_rank.reset();
  model.view.marked_rank.reset();
  model.alike.clear();
  model.history.clear();
  model.notes = {};
  model.view.marks.clear();
  model.view.set_query(model.view.query, model.timeline);  // the names have other ids
  model.viewport.follow(true);
}

std::optional<std::size_t> described_step(const Model& model) {
  const std::size_t completed = model.bubbles.count();
  if (completed == 0) return std::nullopt;
  const std::size_t last = completed - 1;
  if (model.view.locked_step) {
    const auto& steps = model.timeline.steps();
    const auto locked = std::ranges::find(steps, *model.view.locked_step, &StepWindow::step);
    const auto index = static_cast<std::size_t>(locked - steps.begin());
    if (index <= last) return index;
  }
  return model.viewport.following() ? last
                                    : std::min(last, model.viewport.step_in_view(model.timeline));
}

StepKey step_key(const Model& model) {
  const auto described = described_step(model);
  return {.run = model.timeline.run().run,
          .step = described ? model.timeline.steps()[*described].step : -1,
          .ranks = model.timeline.ranks().size()};
}

}  // namespace lockstep::viz
