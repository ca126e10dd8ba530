#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/printable.h"
#include "core/model/data.h"
#include "core/plan/plan.h"
#include "lessons/12_expert_parallel/experiment/routing_record.h"

namespace lockstep {

/// The way of a token to one of its experts.
struct TokenHop {
  std::int32_t expert = 0;
  std::size_t member = 0;  ///< of the expert-parallel group: it has the expert
  std::int64_t slot = -1;  ///< among the rows that the token's rank sends; -1 if it was dropped
  std::int64_t row = -1;   ///< in the expert's matrix
  std::int64_t rows = 0;   ///< of this matrix
};

/// Returns the ways of a token to its experts, most probable first. `routed` is a microbatch of all
/// members of the expert-parallel group, and the token is one of `sender`'s.
inline std::vector<TokenHop> hops_of(const std::vector<const RoutedMicrobatch*>& routed,
                                     std::size_t sender, std::int64_t token,
                                     const MixtureOfExperts& moe) {
  const std::vector<std::int32_t>& choices = routed[sender]->choices;
  const Routing routing = route(choices, moe);
  std::vector<TokenHop> hops;
  for (std::int64_t choice = token * moe.top_k; choice < (token + 1) * moe.top_k; ++choice) {
    const std::int32_t expert = choices[static_cast<std::size_t>(choice)];
    const auto e = static_cast<std::size_t>(expert);
    TokenHop hop{.expert = expert,
                 .member = e * routed.size() / static_cast<std::size_t>(moe.experts),
                 .slot = routing.slots[static_cast<std::size_t>(choice)]};
    if (hop.slot >= 0)  // the expert's rows: those of earlier members, then the sender's by slot
      hop.row = hop.slot - std::accumulate(routing.kept.begin(), routing.kept.begin() + expert,
                                           std::int64_t{0});
    for (std::size_t member = 0; member < routed.size(); ++member) {
      hop.rows += routed[member]->kept[e];
      if (hop.slot >= 0 && member < sender) hop.row += routed[member]->kept[e];
    }
    hops.push_back(hop);
  }
  return hops;
}

/// Returns the tokens of a batch's last microbatch.
inline std::vector<std::int32_t> last_microbatch(const Batch& batch) {
  const std::size_t count = batch.tokens.size() / batch.microbatches.size();
  return {batch.tokens.end() - static_cast<std::ptrdiff_t>(count), batch.tokens.end()};
}

/// Returns the way of the token of rank 0 that the record follows, in the last microbatch of the
/// run, of which `tokens` are the tokens: a row for each layer and expert.
inline std::string way_table(const Plan& plan, const MixtureOfExperts& moe, RoutingRecord& log,
                             const std::vector<std::int32_t>& tokens) {
  const auto at = static_cast<std::ptrdiff_t>(log.followed());
  const std::ptrdiff_t before = std::min<std::ptrdiff_t>(24, at % plan.model().sequence);
  const auto text = [&](std::ptrdiff_t from, std::ptrdiff_t to) {
    return excerpt(Tokenizer::decode({tokens.begin() + from, tokens.begin() + to}));
  };
  std::string table =
      fmt::format("  the way of token {} of rank 0 in the last step: \"{}\", after \"{}\"\n", at,
                  text(at, at + 1), text(at - before, at));
  table += fmt::format("  {:<9}{:>8}{:>14}{:>17}{:>15}{:>24}\n", "layer", "expert", "probability",
                       "slot on rank 0", "goes to", "row in expert's matrix");
  const std::vector<int> ranks = plan.mesh.group(0, Axis::ep);
  for (int layer = 0; layer < plan.model().layers; ++layer) {
    std::vector<const RoutedMicrobatch*> routed;
    for (const int rank : ranks)
      routed.push_back(&log.calls(replica_of(plan.mesh, rank), layer).back());
    for (const TokenHop& hop : hops_of(routed, 0, at, moe))
      table += fmt::format("  {:<9}{:>8}{:>14.3f}{:>17}{:>15}{:>24}\n", layer, hop.expert,
                           log.probabilities(layer)[static_cast<std::size_t>(hop.expert)],
                           hop.slot < 0 ? "-" : std::to_string(hop.slot),
                           hop.slot < 0 ? "dropped" : fmt::format("rank {}", ranks[hop.member]),
                           hop.slot < 0 ? "-" : fmt::format("{} of {}", hop.row, hop.rows));
  }
  return table;
}

inline void print_way(const Plan& plan, const MixtureOfExperts& moe, RoutingRecord& log,
                      const std::vector<std::int32_t>& tokens) {
  if (log.followed() >= 0 && log.has(0, 0)) fmt::print("{}\n", way_table(plan, moe, log, tokens));
}

}  // namespace lockstep
