#include "core/run/results/rank_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace lockstep {

std::string predicted_json(const Phase& phase, const Predicted& predicted) {
  nlohmann::ordered_json args;
  if (predicted.bubble) args["bubble"] = *predicted.bubble;
  if (predicted.bubble_simulated) args["bubble_simulated"] = *predicted.bubble_simulated;
  if (!predicted.formula.empty()) args["formula"] = predicted.formula;
  if (!predicted.schedule.empty()) args["schedule"] = predicted.schedule;
  if (predicted.stages > 0) args["stages"] = predicted.stages;
  args["phase"] = phase.name;
  args["first_step"] = phase.first_step;
  args["microbatches"] = phase.microbatches;
  return args.dump();
}

std::vector<double> collect_losses(const std::vector<RankResults>& ranks, int steps) {
  std::vector<std::optional<double>> sums(static_cast<std::size_t>(steps));
  for (const RankResults& rank : ranks)
    for (const auto& [step, loss] : rank.losses) {
      auto& sum = sums.at(static_cast<std::size_t>(step));
      sum = sum.value_or(0) + loss;
    }
  std::vector<double> losses;
  for (const auto& sum : sums) {
    if (!sum) throw RunError(fmt::format("no rank recorded a loss for step {}", losses.size()));
    losses.push_back(*sum);
  }
  return losses;
}

namespace {

/// A tensor being assembled from slices.
struct Assembly {
  NamedValues tensor;
  std::vector<bool> here;  ///< by element
};

}  // namespace

std::vector<NamedValues> collect_parameters(const std::vector<RankResults>& ranks) {
  std::map<int, Assembly> assemblies;  // by order
  for (const RankResults& rank : ranks) {
    for (const NamedValues& part : rank.parameters) {
      const auto stored = static_cast<std::int64_t>(part.values.size());
      const Slice slice = part.slice.whole().rank() > 0 ? part.slice : Slice{Shape{stored}};
      Assembly& whole = assemblies[part.order];
      if (whole.here.empty()) {
        const auto elements = static_cast<std::size_t>(slice.whole().elements());
        whole = {{part.name, part.order, std::vector<float>(elements), Slice{slice.whole()}},
                 std::vector<bool>(elements)};
      }
      if (slice.whole().elements() != static_cast<std::int64_t>(whole.here.size()) ||
          slice.local().elements() != stored)
        throw RunError(fmt::format("rank {} has {} elements of {}, which is {}", rank.rank, stored,
                                   part.name, slice.text()));
      for (const auto& [in_whole, in_local, elements] : slice.runs())
        for (std::int64_t i = 0; i < elements; ++i) {
          const auto at = static_cast<std::size_t>(in_whole + i);
          const float value = part.values[static_cast<std::size_t>(in_local + i)];
          float& known = whole.tensor.values[at];
          if (!whole.here[at])
            known = value;
          else if (std::bit_cast<std::uint32_t>(known) != std::bit_cast<std::uint32_t>(value))
            throw RunError(
                fmt::format("replicas differ: rank {} and a lower rank have different values of {}",
                            rank.rank, part.name));
          whole.here[at] = true;
        }
    }
  }
  std::vector<NamedValues> all;
  for (auto& [order, whole] : assemblies) {
    const auto missing = std::ranges::find(whole.here, false);
    if (missing != whole.here.end())
      throw RunError(fmt::format("no rank has element {} of {}", missing - whole.here.begin(),
                                 whole.tensor.name));
    all.push_back(std::move(whole.tensor));
  }
  return all;
}

}  // namespace lockstep
