#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace lockstep {

/// Given each rank's checksum of a state that should be the same on all of them, returns the ranks
/// whose checksum is not that of the majority, in ascending order: none if all agree. Returns
/// nothing if no checksum has a majority, since then nothing shows which state is right.
inline std::optional<std::vector<int>> minority(const std::map<int, std::uint32_t>& checksums) {
  std::map<std::uint32_t, std::size_t> votes;
  for (const auto& [rank, checksum] : checksums) ++votes[checksum];
  const auto most =
      std::ranges::max_element(votes, {}, [](const auto& each) { return each.second; });
  if (2 * most->second <= checksums.size()) return {};
  std::vector<int> ranks;
  for (const auto& [rank, checksum] : checksums)
    if (checksum != most->first) ranks.push_back(rank);
  return ranks;
}

}  // namespace lockstep
