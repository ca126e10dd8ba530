#include "viz/data/selection/rank_mention.h"

#include <cctype>
#include <charconv>

namespace lockstep::viz {

std::vector<RankMention> rank_mentions(std::string_view text) {
  constexpr std::string_view word = "ank ";  // of "rank" and "Rank"
  const auto is_letter = [](char each) {
    return std::isalpha(static_cast<unsigned char>(each)) != 0;
  };
  std::vector<RankMention> parts;
  std::size_t done = 0;
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    if (at == 0 || (text[at - 1] != 'r' && text[at - 1] != 'R')) continue;
    const std::size_t begin = at - 1;
    if (begin > 0 && is_letter(text[begin - 1])) continue;
    int rank = 0;
    const char* digits = text.data() + at + word.size();
    const auto [end, error] = std::from_chars(digits, text.data() + text.size(), rank);
    if (error != std::errc{} || rank < 0) continue;
    if (begin > done) parts.push_back({done, begin - done});
    const auto after = static_cast<std::size_t>(end - text.data());
    parts.push_back({begin, after - begin, rank});
    done = after;
  }
  if (done < text.size()) parts.push_back({done, text.size() - done});
  return parts;
}

}  // namespace lockstep::viz
