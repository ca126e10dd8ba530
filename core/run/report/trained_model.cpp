#include "core/run/report/trained_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/comm/mpi/environment.h"
#include "core/model/checkpoint.h"
#include "core/model/gpt.h"
#include "core/model/sample.h"
#include "core/run/files/rank_message.h"
#include "core/run/report/solo_device.h"

namespace lockstep {

namespace {

/// A whole model on the CPU, for use outside the ranks. It is in f32, like checkpoints and the
/// final parameters (for 16-bit parameters, their master copies).
struct PlainModel {
  static Plan in_f32(const Options& options) {
    Options plain = options;
    plain.run.model.dtype = DType::f32;
    return plain.plan_of_one_device();
  }
  explicit PlainModel(const Options& options)
      : plan(in_f32(options)), model(plan, plan.place(0), device) {}

  Plan plan;
  SoloDevice device;
  Gpt model;
};

/// Converts text to one printable line.
std::string one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == '\n')
      line += ' ';
    else if (byte >= 32 && byte < 127)
      line += c;
    else
      line += '?';
  }
  return line;
}

}  // namespace

void check_checkpoint(Options& options) {
  RunConfig& run = options.run;
  const Plan plan = options.plan();
  const bool checked_by_launcher = under_mpi() && messages_are_collected();
  run.loaded_state = check_checkpoint_fits(run.load, plan, /*values=*/!checked_by_launcher);
  run.trained_steps = static_cast<int>(trained_steps(run.load, plan).value_or(0));
}

bool saves_moments(const Options& options) {
  return !options.output.save.empty() && !options.output.save.ends_with(".safetensors");
}

std::string use_trained_model(const Options& options, const std::vector<NamedValues>& parameters,
                              const std::vector<NamedValues>& moments) {
  PlainModel plain{options};
  const auto& targets = plain.model.parameters();
  if (targets.size() != parameters.size())
    throw RunError("the ranks' parameters do not form a whole model");
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (static_cast<std::int64_t>(parameters[i].values.size()) != targets[i]->value.elements())
      throw RunError(fmt::format("the ranks have {} elements of {}, which has {}",
                                 parameters[i].values.size(), targets[i]->name,
                                 targets[i]->value.elements()));
  for (std::size_t i = 0; i < targets.size(); ++i)
    std::copy(parameters[i].values.begin(), parameters[i].values.end(), targets[i]->value.f32());
  std::optional<OptimizerState> optimizer;
  if (saves_moments(options)) {
    optimizer.emplace();
    optimizer->steps = options.run.trained_steps + options.run.steps;
    for (const NamedValues& moment : moments)
      optimizer->moments.push_back({moment.name, moment.values});
  }
  if (!options.output.save.empty())
    save_checkpoint(options.output.save, plain.plan, plain.model.device(), targets, optimizer);
  return one_line(generate(plain.model, "The ", {.tokens = 96, .temperature = 0.6F, .seed = 1}));
}

}  // namespace lockstep
