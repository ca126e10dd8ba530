#include "viz/read/flight_recorder/rank_list.h"

#include <fmt/format.h>

#include "core/base/json_reader.h"

namespace lockstep::flight {

std::optional<std::vector<int>> parse_rank_list(std::string_view text) {
  std::vector<int> ranks;
  JsonReader json{text};  // torch's lists are valid JSON
  try {
    json.elements([&] { ranks.push_back(static_cast<int>(json.whole(0, most_ranks - 1))); });
    json.end();
  } catch (const JsonError&) {
    return std::nullopt;
  }
  return ranks;
}

std::vector<std::string> rank_ranges(const std::vector<int>& ranks, std::size_t most) {
  std::vector<std::string> ranges;
  std::size_t written = 0;
  while (written < ranks.size() && ranges.size() < most) {
    std::size_t last = written;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last == written + 1) last = written;  // two neighbours are written as two ranks
    ranges.push_back(last == written ? std::to_string(ranks[last])
                                     : fmt::format("{}-{}", ranks[written], ranks[last]));
    written = last + 1;
  }
  if (written < ranks.size()) ranges.push_back(fmt::format("{} more", ranks.size() - written));
  return ranges;
}

std::string rank_words(const std::vector<int>& ranks, std::size_t most) {
  if (ranks.empty()) return "no rank";
  const std::vector<std::string> ranges = rank_ranges(ranks, most);
  std::string words = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranges.size(); ++i)
    words += (i == 0 ? "" : i + 1 == ranges.size() ? " and " : ", ") + ranges[i];
  return words;
}

}  // namespace lockstep::flight
