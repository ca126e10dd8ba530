#include "core/run/report/config_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

/// Returns the double with the fewest digits among those that round to this float: 0.001, not
/// 0.0010000000474974513.
double shortest(float value) {
  return std::stod(fmt::format("{}", value));
}

/// Returns the axes of a mesh from the innermost, as --order takes them, if its ranks are not in
/// the usual order; otherwise "". Axes with one rank, whose place does not matter, come first.
std::string unusual_order(const Mesh& mesh) {
  std::array<Axis, axis_count> axes{Axis::tp, Axis::cp, Axis::dp, Axis::pp};
  // The distance of neighbours on an axis is the number of ranks on the axes within it.
  const auto distance_in = [&](const Mesh& of, Axis axis) {
    int rank = 0;
    while (of.size(axis) > 1 && of.coordinate(rank, axis) == 0) ++rank;
    return rank;
  };
  const Mesh usual{
      mesh.ranks(),
      {mesh.size(Axis::tp), mesh.size(Axis::cp), mesh.size(Axis::dp), mesh.size(Axis::pp)}};
  if (std::ranges::all_of(
          axes, [&](Axis axis) { return distance_in(mesh, axis) == distance_in(usual, axis); }))
    return {};
  std::ranges::stable_sort(axes, {}, [&](Axis axis) { return distance_in(mesh, axis); });
  std::string order;
  for (const Axis axis : axes) order += (order.empty() ? "" : ",") + std::string{name_of(axis)};
  return order;
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
  if (const std::string order = unusual_order(plan.mesh); !order.empty()) config["order"] = order;
  for (const auto& [flag, value] : run.lesson_flags) config[flag] = value;
  return config.dump();
}

}  // namespace lockstep
