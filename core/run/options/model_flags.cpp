#include "core/run/options/model_flags.h"

#include <fmt/format.h>

#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/plan/model_presets.h"
#include "core/run/options/command_line.h"

namespace lockstep {

namespace {

/// Throws UsageError if the model of --load is not the one that --model names.
void check_model_name(const std::string& name, const std::string& load, const GptConfig& saved) {
  const GptConfig named = model_preset(name);
  const auto refuse = [&](const std::string& what) {
    throw UsageError(
        fmt::format("--model {}: the model of --load {} {}; leave --model out", name, load, what));
  };
  if (named.llama.has_value() != saved.llama.has_value())
    refuse(saved.llama ? "is a Llama" : "is a GPT-2");
  if (is_published(name) &&
      (named.layers != saved.layers || named.hidden != saved.hidden || named.heads != saved.heads ||
       named.vocabulary != saved.vocabulary || named.kv_heads() != saved.kv_heads() ||
       named.mlp_width() != saved.mlp_width()))
    refuse("has another shape");
}

}  // namespace

void ModelFlags::add_to(CommandLine& line) {
  line.choice(
      "--model", name, model_presets(),
      "gpt2 or llama: a small model, whose shape the flags below set; the others: a published "
      "model, whose shape they change");
  line.number("--layers", model.layers, 1, "transformer blocks");
  line.number("--hidden", model.hidden, 1, "width of the model");
  line.number("--heads", model.heads, 1, "attention heads; must divide --hidden");
  line.number(
      "--kv-heads", kv_heads,
      "in a Llama: heads of keys and values, each shared by a group of heads of queries; must "
      "divide --heads [for --model llama: half of --heads if --tp divides that, otherwise "
      "--heads]");
  line.number(
      "--mlp-width", mlp_width,
      "in a Llama: width of the MLP's activation [for --model llama: 8/3 of --hidden, rounded "
      "up to a multiple of 16 and of --tp]");
  line.number("--sequence", model.sequence, 1, "tokens per sequence");
  line.number("--vocab", model.vocabulary, 1, "tokens in the vocabulary; text needs at least 256");
  line.app.add_flag("--tied", model.tied, "use the token embedding as the output head");
}

void ModelFlags::adopt(CommandLine& line, const std::string& load, const ModelDescription& saved) {
  const CLI::App& app = line.app;
  GptConfig base = model_preset(name);
  base.layers = saved.layers.value_or(base.layers);
  base.hidden = saved.hidden.value_or(base.hidden);
  base.heads = saved.heads.value_or(base.heads);
  base.sequence = saved.sequence.value_or(base.sequence);
  base.vocabulary = saved.vocabulary.value_or(base.vocabulary);
  base.tied = saved.tied.value_or(base.tied);
  const std::optional<int> window = saved.window;
  const bool is_described = saved != ModelDescription{};
  if (is_described) {
    base.llama = saved.llama;
    if (app.count("--model") > 0) check_model_name(name, load, base);
  }
  for (auto [flag, value, theirs] : {std::tuple{"--layers", &model.layers, base.layers},
                                     {"--hidden", &model.hidden, base.hidden},
                                     {"--heads", &model.heads, base.heads},
                                     {"--sequence", &model.sequence, base.sequence},
                                     {"--vocab", &model.vocabulary, base.vocabulary}})
    if (app.count(flag) == 0) *value = theirs;
  if (app.count("--tied") == 0) model.tied = base.tied;
  model.llama = base.llama;
  if (is_described || app.count("--model") > 0)
    for (const char* flag : {"--layers", "--hidden", "--heads", "--kv-heads", "--mlp-width",
                             "--sequence", "--vocab", "--tied"})
      line.origins[flag] = is_described ? "--load " + load : "--model " + name;
  if (window && model.sequence > *window)
    throw UsageError(fmt::format(
        "--load {}: its config.json has sliding_window {}, but Lockstep's attention has "
        "no window, which matters for --sequence {}; use --sequence {}, or load "
        "another model",
        load, *window, model.sequence, *window));
  const auto only_in_llama = [&](const char* flag, std::optional<int> value, const char* why) {
    if (value && !model.llama)
      throw UsageError(fmt::format("{} {}: {}; {}leave {} out", flag, *value, why,
                                   is_described ? "" : "use --model llama, or ", flag));
  };
  only_in_llama("--kv-heads", kv_heads,
                "a GPT-2 has as many heads of keys and values as of queries");
  only_in_llama("--mlp-width", mlp_width, "a GPT-2's MLP has 4 times --hidden columns");
  if (!model.llama) return;
  model.llama->kv_heads = kv_heads.value_or(model.llama->kv_heads);
  model.llama->mlp_width = mlp_width.value_or(model.llama->mlp_width);
}

}  // namespace lockstep
