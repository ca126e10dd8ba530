#include "core/run/options/nearest.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

namespace {

/// The edit distance between two words (Levenshtein): the number of letters inserted, removed or
/// replaced.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string did_you_mean(const std::string& word, const std::vector<std::string>& words) {
  std::string nearest;
  std::size_t least = word.size() > 6 ? 3 : 2;  // so at most one or two letters differ
  for (const std::string& each : words)
    if (const std::size_t apart = distance(word, each); apart < least) {
      least = apart;
      nearest = each;
    }
  return nearest.empty() ? "" : fmt::format("did you mean {}? ", nearest);
}

}  // namespace lockstep
