// Checks the groups of a folded run: members that the run treats as equal must be equal.

#include <fmt/format.h>

#include "core/replay/player.h"

namespace lockstep {

std::size_t Replay::GroupState::kept_of(const std::vector<int>& ranks, const Folding& folding) {
  const std::size_t size = ranks.size();
  std::size_t kept = 0;
  while (kept < size && folding.keeps(ranks[kept])) ++kept;
  if (kept == 0 || size % kept != 0) return 0;
  if (kept == size) return size;
  for (std::size_t member = 0; member < size; ++member)
    if (folding.representative(ranks[member]) != ranks[member % kept] ||
        folding.seen_from(ranks[kept], ranks[member]) != ranks[(member + size - kept) % size])
      return 0;
  return kept;
}

// Accepts a ring, and any other algorithm in which member i does the same as member i - 1, one
// place further.
void Replay::Player::check_folds(const GroupState& group, const Collective& collective) {
  const auto size = static_cast<std::int64_t>(group.ranks.size());
  const bool is_even = collective.elements % size == 0;
  const bool sums_or_gathers = collective.operation == Operation::all_reduce ||
                               collective.operation == Operation::reduce_scatter ||
                               collective.operation == Operation::all_gather;
  const auto kept = static_cast<int>(group.kept);
  if (sums_or_gathers && ((collective.algorithm == Algorithm::ring && is_even) ||
                          (collective.algorithm == Algorithm::hierarchical && is_even &&
                           (collective.per_node == 0 || kept % collective.per_node == 0)) ||
                          collective.algorithm == Algorithm::in_switch))
    return;
  refuse(fmt::format("folded ranks exchange different messages in their group '{}'", group.name));
}

}  // namespace lockstep
