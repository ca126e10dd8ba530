#include "core/run/report/config_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

/// Returns the double with the fewest digits among those that round to this float: 0.001, not
/// 0.0010000000474974513.
double shortest(float value) {
  return std::stod(fmt::format("{}", value));
}

}  // namespace

std::string config_json(const Options& options) {
  const auto& [plan, run, platform, output] = options;
  const GptConfig& model = plan.model();
  nlohmann::ordered_json config{{"model", model.llama ? "llama" : "gpt2"},
                                {"layers", model.layers},
                                {"hidden", model.hidden},
                                {"heads", model.heads},
                                {"sequence", model.sequence},
                                {"vocabulary", model.vocabulary},
                                {"tied", model.tied},
                                {"precision", name_of(model.dtype)},
                                {"steps", run.steps},
                                {"batch", plan.batch.sequences},
                                {"microbatches", options.microbatches()},
                                {"learning_rate", shortest(plan.optimizer.learning_rate)},
                                {"clip", shortest(plan.optimizer.clip)},
                                {"seed", plan.seed}};
  if (model.llama) {
    config["kv_heads"] = model.llama->kv_heads;
    config["mlp_width"] = model.llama->mlp_width;
  }
  if (plan.batch.documents > 0) config["documents"] = plan.batch.documents;
  if (!run.data.empty()) config["data"] = run.data;
  if (!run.tokens.empty()) config["tokens"] = run.tokens;
  if (!run.load.empty()) config["load"] = run.load;
  if (!model.frozen.empty()) config["frozen"] = model.frozen;
  for (const auto& [flag, value] : run.lesson_flags) config[flag] = value;
  return config.dump();
}

}  // namespace lockstep
