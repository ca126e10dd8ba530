#include "core/run/active/save.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/comm/transport/control.h"
#include "core/model/checkpoint/sharded_checkpoint.h"
#include "core/run/active/active_run.h"

namespace lockstep {

void save(ActiveRun& run, Rank& rank, const std::vector<Parameter*>& parameters,
          const AdamW& optimizer) {
  const Output& output = run.options.output;
  const int steps = run.stop.ended_early() ? run.stop.steps() : run.options.run.steps;
  if (steps == 0 || (output.save.empty() && output.export_to.empty())) return;
  const auto& losses = run.ranks.meter(rank).results().losses;
  const bool finite =
      std::ranges::all_of(losses, [](const auto& each) { return std::isfinite(each.second); });
  const TrainingState state{.device = rank.device,
                            .parameters = parameters,
                            .optimizer = optimizer,
                            .step = run.options.run.trained_steps + steps,
                            .unsound = finite ? "" : "the loss is not a number"};
  const auto done = [&](const std::string& flag, const std::string& path, const std::string& why) {
    if (!why.empty() && rank.id == 0 && run.collected.not_saved.empty())
      run.collected.not_saved = fmt::format("{} {}: {}, so nothing was saved", flag, path, why);
  };
  Transport& ranks = *rank.transport;
  if (output.save.ends_with(".safetensors"))
    done("--save", output.save, export_model(ranks, "--save", output.save, rank.plan, state));
  else if (!output.save.empty())
    done("--save", output.save, save_checkpoint(ranks, output.save, rank.plan, state));
  if (!output.export_to.empty() && !run.stop.ended_early())
    done("--export", output.export_to,
         export_model(ranks, "--export", output.export_to, rank.plan, state));
  // The other ranks finish before rank 0, which gives the folder its name.
  broadcast_from_root(ranks, "");
  run.stop.saved();
}

std::string interruption(const ActiveRun& run) {
  const int steps = run.options.run.steps;
  const int done = run.stop.ended_early() ? run.stop.steps() : steps;
  const std::string& place = run.options.output.save;
  if (done == 0) return "interrupted before the first step, so nothing was saved";
  if (!run.collected.not_saved.empty()) return "interrupted; " + run.collected.not_saved;
  std::string text =
      fmt::format("interrupted after {} of {} steps; saved in {}", done, steps, place);
  if (place.ends_with(".safetensors"))
    text += ", without the optimizer's state";
  else if (done < steps)
    text += fmt::format("; --load {} --steps {} continues", place, steps - done);
  return text;
}

}  // namespace lockstep
