#include "core/run/results/config_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

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

/// Returns "1=1.3,5=2", as --slow takes it.
std::string words_of(const std::map<int, double>& slow) {
  std::string words;
  for (const auto& [rank, factor] : slow)
    words += fmt::format("{}{}={}", words.empty() ? "" : ",", rank, factor);
  return words;
}

/// Returns "forward=1ms,backward=2ms", as --time takes it.
std::string words_of(const FixedTimes& times) {
  constexpr std::pair<Picoseconds, const char*> units[] = {
      {1'000'000'000'000, "s"}, {1'000'000'000, "ms"}, {1'000'000, "us"}, {1000, "ns"}};
  std::string words;
  for (int c = 0; c < category_count; ++c) {
    const auto category = static_cast<Category>(c);
    const auto time = times.of(category);
    if (!time) continue;
    // The largest unit in which the time is a whole number.
    const auto* unit =
        std::ranges::find_if(units, [&](const auto& each) { return *time % each.first == 0; });
    if (unit == std::end(units)) --unit;
    words +=
        fmt::format("{}{}={}{}", words.empty() ? "" : ",", name_of(category),
                    static_cast<double>(*time) / static_cast<double>(unit->first), unit->second);
  }
  return words;
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
  if (!plan.batch.shares.empty()) config["shares"] = plan.batch.shares;
  if (plan.batch.documents > 0) config["documents"] = plan.batch.documents;
  if (!run.data.empty()) config["data"] = run.data;
  if (!run.tokens.empty()) config["tokens"] = run.tokens;
  if (!run.load.empty()) config["load"] = run.load;
  if (!model.frozen.empty()) config["frozen"] = model.frozen;
  if (const std::string order = unusual_order(plan.mesh); !order.empty()) config["order"] = order;
  if (plan.modelled && !plan.modelled->slow.empty())
    config["--slow"] = words_of(plan.modelled->slow);
  if (plan.modelled && plan.modelled->times.any())
    config["--time"] = words_of(plan.modelled->times);
  for (const auto& [flag, value] : run.lesson_flags) config[flag] = value;
  return config.dump();
}

std::string facts_json(const Options& options, bool pipeline) {
  const auto& [plan, run, platform, output] = options;
  nlohmann::ordered_json facts{{"ranks", plan.mesh.ranks()},
                               {"mesh", nlohmann::ordered_json::parse(plan.mesh.json())},
                               {"device", platform.device},
                               {"launch", platform.launch == Launch::mpi ? "mpi" : "threads"},
                               {"clock", options.clock().name()},
                               {"why_this_clock", platform.why_this_clock}};
  if (plan.modelled) {
    facts["cluster"] = plan.modelled->cluster.name;
    facts["rates"] = plan.modelled->cluster.rates_text();
    for (const auto& [rank, factor] : plan.modelled->slow)
      facts["slow"][std::to_string(rank)] = factor;
  }
  facts["sends"] = plan.modelled ? "buffered" : "rendezvous";
  facts["config"] = nlohmann::ordered_json::parse(config_json(options));
  if (pipeline) facts["config"]["split"] = plan.blocks_of_stages();
  return facts.dump();
}

}  // namespace lockstep
