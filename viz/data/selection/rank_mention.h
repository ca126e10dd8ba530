#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace lockstep::viz {

/// A part of a text: a mention of a rank, such as "rank 13", or the text between two mentions.
struct RankMention {
  std::size_t begin = 0, size = 0;  ///< in bytes
  int rank = -1;                    ///< -1 if the part mentions none
  bool operator==(const RankMention&) const = default;
};

/// Divides a text into mentions of ranks and the text between them. The parts cover the text.
std::vector<RankMention> rank_mentions(std::string_view text);

}  // namespace lockstep::viz
