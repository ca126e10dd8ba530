#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::flight {

/// The highest rank that a dump may mention, plus one.
constexpr int most_ranks = 1 << 20;

/// Returns the ranks in the text of a list, "[0, 1]", if it is one.
std::optional<std::vector<int>> parse_rank_list(std::string_view text);

/// Returns ascending ranks as ranges: "0-2", "5", "6". After `most` ranges, counts the remaining
/// ranks: "13 more".
std::vector<std::string> rank_ranges(const std::vector<int>& ranks, std::size_t most);
/// Lists them: "rank 3", "ranks 0-2 and 4", "ranks 0-2, 5 and 13 more".
std::string rank_words(const std::vector<int>& ranks, std::size_t most = 8);

}  // namespace lockstep::flight
