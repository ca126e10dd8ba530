#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

namespace lockstep {

/// The routing on the meta device, where no router computes.
enum class SyntheticRouting {
  balanced,  ///< every expert gets the same number of tokens
  zipf,      ///< the i-th most popular expert gets a share proportional to 1/i
};

class GivenRouting;  // given_routing.h

/// A mixture of experts that replaces the MLP of every block.
struct MixtureOfExperts {
  int experts = 8;             ///< E
  int top_k = 2;               ///< k, the experts that process each token
  double capacity_factor = 0;  ///< 0: dropless
  /// The coefficient of the load-balance loss (Fedus 2021, "Switch Transformers", section 2.2).
  double balance = 0.01;
  /// Whether the load-balance loss takes the statistics of the whole batch, instead of those of one
  /// microbatch on one rank.
  bool balance_over_batch = false;
  std::int64_t batch_tokens = 1;  ///< tokens of the whole batch, over all ranks and microbatches
  SyntheticRouting synthetic = SyntheticRouting::balanced;  ///< used on the meta device only
  std::uint64_t seed = 1;                                   ///< of the synthetic routing
  GivenRouting* given = nullptr;  ///< replaces the synthetic routing; must outlive the layers

  /// Returns an expert's capacity for T tokens, ⌈capacity_factor k T / E⌉: the choices that it
  /// accepts. The T tokens are those of one microbatch on one rank. Without a capacity factor, all
  /// T tokens may choose one expert.
  std::int64_t capacity(std::int64_t tokens) const {
    if (capacity_factor == 0) return tokens;
    const double share = capacity_factor * top_k * static_cast<double>(tokens) / experts;
    // Subtracts far more than the product's rounding error, so that 30.000000000000004 stays 30.
    return std::min(tokens, static_cast<std::int64_t>(std::ceil(share * (1 - 1e-12))));
  }
};

/// The destinations of the tokens of one microbatch. The accepted choices of all tokens get slots
/// 0, 1, ..., sorted by expert, and by token within an expert.
struct Routing {
  std::vector<std::int64_t> chosen;  ///< choices by expert
  std::vector<std::int64_t> kept;    ///< accepted choices by expert
  std::vector<std::int32_t> slots;   ///< (N, k): the slot of each choice; -1 if it was dropped
  std::vector<std::int32_t> tokens;  ///< by slot: the token that goes there
  /// On the meta device: `kept` of each rank of the expert-parallel group; empty if all route
  /// alike.
  std::vector<std::vector<std::int64_t>> kept_by_member{};

  std::int64_t rows() const { return std::accumulate(kept.begin(), kept.end(), std::int64_t{0}); }
  std::int64_t dropped() const {
    return std::accumulate(chosen.begin(), chosen.end(), std::int64_t{0}) - rows();
  }
};

/// Assigns slots to `choices` (N, k). Once an expert has reached its capacity, it drops the choices
/// of later tokens.
inline Routing route(std::span<const std::int32_t> choices, const MixtureOfExperts& moe) {
  const auto count = static_cast<std::size_t>(moe.experts);
  const auto k = static_cast<std::size_t>(moe.top_k);
  const std::int64_t capacity = moe.capacity(static_cast<std::int64_t>(choices.size() / k));
  Routing routing{.chosen = std::vector<std::int64_t>(count),
                  .kept = std::vector<std::int64_t>(count),
                  .slots = std::vector<std::int32_t>(choices.size(), -1),
                  .tokens = {}};
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const auto expert = static_cast<std::size_t>(choices[i]);
    ++routing.chosen[expert];
    if (routing.kept[expert] < capacity)
      routing.slots[i] = static_cast<std::int32_t>(routing.kept[expert]++);
  }
  std::vector<std::int64_t> first(count);  // the first slot of each expert
  std::exclusive_scan(routing.kept.begin(), routing.kept.end(), first.begin(), std::int64_t{0});
  routing.tokens.resize(static_cast<std::size_t>(routing.rows()));
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (routing.slots[i] < 0) continue;
    routing.slots[i] += static_cast<std::int32_t>(first[static_cast<std::size_t>(choices[i])]);
    routing.tokens[static_cast<std::size_t>(routing.slots[i])] = static_cast<std::int32_t>(i / k);
  }
  return routing;
}

/// Returns the routing of N tokens on the meta device: only the numbers of choices, the same on
/// every rank. The popularity of the experts depends on the layer and the seed.
inline Routing synthetic_routing(std::int64_t tokens, int layer, const MixtureOfExperts& moe) {
  const auto count = static_cast<std::size_t>(moe.experts);
  std::vector<std::size_t> experts(count);  // most popular first
  std::iota(experts.begin(), experts.end(), std::size_t{0});
  std::mt19937_64 random{moe.seed * 1'000'003 + static_cast<std::uint64_t>(layer)};
  for (std::size_t i = count; i-- > 1;) std::swap(experts[i], experts[random() % (i + 1)]);

  double weights = 0;
  const auto weight = [&](std::size_t i) {
    return moe.synthetic == SyntheticRouting::zipf ? 1.0 / static_cast<double>(i + 1) : 1.0;
  };
  for (std::size_t i = 0; i < count; ++i) weights += weight(i);
  Routing routing{
      .chosen = std::vector<std::int64_t>(count), .kept = {}, .slots = {}, .tokens = {}};
  std::int64_t left = tokens * moe.top_k;
  for (std::size_t i = 0; i < count; ++i) {
    // A token chooses an expert at most once, so no expert gets more choices than there are tokens.
    const double share = static_cast<double>(tokens * moe.top_k) * weight(i) / weights;
    routing.chosen[experts[i]] = std::min(tokens, static_cast<std::int64_t>(share));
    left -= routing.chosen[experts[i]];
  }
  for (std::size_t i = 0; left > 0; i = (i + 1) % count)  // the rest, from rounding and the bound
    if (routing.chosen[experts[i]] < tokens) ++routing.chosen[experts[i]], --left;
  for (const std::int64_t chosen : routing.chosen)
    routing.kept.push_back(std::min(chosen, moe.capacity(tokens)));
  return routing;
}

}  // namespace lockstep
