#include "core/run/reference/trained_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/comm/mpi/environment.h"
#include "core/model/builder.h"
#include "core/model/checkpoint/checkpoint.h"
#include "core/model/gpt.h"
#include "core/model/sample.h"
#include "core/run/files/rank_message.h"
#include "core/run/reference/solo_device.h"

namespace lockstep {

namespace {

/// A whole model on the CPU, for use outside the ranks. It is in f32, like checkpoints and the
/// final parameters (for 16-bit parameters, their master copies).
struct PlainModel {
  static Plan in_f32(const Options& options) {
    Plan plan = options.plan.on_one_device();
    set_model(plan, &GptConfig::dtype, DType::f32);
    return plan;
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

/// Sets `trained_steps` and `loaded_state`. Also verifies the contents of the files, except on a
/// rank that this program started under mpirun: the launching process has already verified them.
void check_checkpoint(Options& options) {
  RunConfig& run = options.run;
  const bool checked_by_launcher = under_mpi() && messages_are_collected();
  run.loaded_state = check_checkpoint_fits(run.load, options.plan, /*values=*/!checked_by_launcher);
  run.trained_steps = static_cast<int>(trained_steps(run.load, options.plan).value_or(0));
  if (run.trained_steps > std::numeric_limits<int>::max() - run.steps)
    throw UsageError(fmt::format("--steps {}: {} has taken {} steps, and steps are counted to {}",
                                 run.steps, run.load, run.trained_steps,
                                 std::numeric_limits<int>::max()));
}

/// The run's model must be a plain GPT-2 or Llama, which transformers can read.
void check_export(const Options& options) {
  const Plan& plan = options.plan;
  const std::vector<ParameterSpec> plain = gpt_parameters(plan.model());
  for (const ParameterSpec& spec : plan.parameters()) {
    const auto same = std::ranges::find(plain, spec.name, &ParameterSpec::name);
    if (same == plain.end() || same->shape != spec.shape)
      throw UsageError(fmt::format(
          "--export {}: this model has a parameter {} that a plain {} does not have; use --save",
          options.output.export_to, spec.name, plan.model().llama ? "Llama" : "GPT-2"));
  }
}

}  // namespace

void check_files(Options& options) {
  if (!options.output.export_to.empty()) check_export(options);
  if (!options.run.load.empty()) check_checkpoint(options);
}

std::string sample_of(const Options& options, const Corpus& corpus,
                      const std::vector<NamedValues>& parameters) {
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
  SampleOptions sample{.tokens = 96, .temperature = 0.6F, .seed = 1};
  if (options.run.tokens.empty()) return one_line(generate(plain.model, "The ", sample));
  std::vector<std::int32_t> prompt;
  for (std::size_t i = 0; i < std::min<std::size_t>(8, corpus.tokens()); ++i)
    prompt.push_back(corpus.token(i));
  sample.tokens = 16;
  return fmt::format("tokens {}, then {}", fmt::join(prompt, " "),
                     fmt::join(generate(plain.model, prompt, sample), " "));
}

}  // namespace lockstep
