#include "core/run/report/config_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

/// Returns the double with the fewest digits that is this float: 0.001, not 0.0010000000474974513.
double shortest(float value) {
  return std::stod(fmt::format("{}", value));
}

}  // namespace

std::string config_json(const Options& options) {
  const RunConfig& run = options.run;
  nlohmann::ordered_json config{{"layers", run.model.layers},
                                {"hidden", run.model.hidden},
                                {"heads", run.model.heads},
                                {"sequence", run.model.sequence},
                                {"vocabulary", run.model.vocabulary},
                                {"tied", run.model.tied},
                                {"precision", name_of(run.model.dtype)},
                                {"steps", run.steps},
                                {"batch", run.batch},
                                {"microbatches", run.microbatches},
                                {"learning_rate", shortest(run.optimizer.learning_rate)},
                                {"clip", shortest(run.optimizer.clip)},
                                {"seed", run.seed}};
  if (!run.data.empty()) config["data"] = run.data;
  if (!run.tokens.empty()) config["tokens"] = run.tokens;
  if (!run.load.empty()) config["load"] = run.load;
  if (!run.model.frozen.empty()) config["frozen"] = run.model.frozen;
  for (const auto& [flag, value] : run.lesson_flags) config[flag] = value;
  return config.dump();
}

}  // namespace lockstep
