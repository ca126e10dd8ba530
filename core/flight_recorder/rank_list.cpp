#include "core/flight_recorder/rank_list.h"

#include <fmt/format.h>

#include <charconv>

namespace lockstep::flight {

std::optional<std::vector<int>> parse_rank_list(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  std::vector<int> ranks;
  const char *at = text.data(), *end = text.data() + text.size();
  const auto pass = [&] {
    while (at != end && blank(*at)) ++at;
  };
  pass();
  if (at == end || *at++ != '[') return std::nullopt;
  pass();
  if (at != end && *at == ']') {
    ++at;
  } else {
    for (;;) {
      int rank = -1;
      const auto read = std::from_chars(at, end, rank);
      if (read.ec != std::errc{} || rank < 0 || rank >= most_ranks ||
          ranks.size() == static_cast<std::size_t>(most_ranks))
        return std::nullopt;
      ranks.push_back(rank);
      at = read.ptr;
      pass();
      if (at == end) return std::nullopt;
      const char next = *at++;
      if (next == ']') break;
      if (next != ',') return std::nullopt;
      pass();
    }
  }
  pass();
  if (at != end) return std::nullopt;
  return ranks;
}

std::string rank_words(const std::vector<int>& ranks, std::size_t most) {
  if (ranks.empty()) return "no rank";
  std::vector<std::string> ranges;
  std::size_t written = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (ranges.size() == most) break;
    if (last == i + 1) last = i;  // two neighbours are written as two ranks
    ranges.push_back(last == i ? std::to_string(ranks[i])
                               : fmt::format("{}-{}", ranks[i], ranks[last]));
    i = last + 1;
    written = i;
  }
  if (written < ranks.size()) ranges.push_back(fmt::format("{} more", ranks.size() - written));
  std::string words = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranges.size(); ++i)
    words += (i == 0 ? "" : i + 1 == ranges.size() ? " and " : ", ") + ranges[i];
  return words;
}

}  // namespace lockstep::flight
