#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::flight {

/// One more than the highest rank that a dump may mention.
constexpr int most_ranks = 1 << 20;

/// Reads the text of a list of ranks, "[0, 1]"; nothing if it is none.
std::optional<std::vector<int>> parse_rank_list(std::string_view text);

/// Writes ascending ranks as ranges: "rank 3", "ranks 0-2 and 4", "ranks 0-2, 5 and 7-9". With
/// more than `most` ranges, counts the rest: "ranks 0, 2, 4 and 13 more".
std::string rank_words(const std::vector<int>& ranks, std::size_t most = 8);

}  // namespace lockstep::flight
