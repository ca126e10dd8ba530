#include "viz/data/step/memory_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/data/step/words.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t most_kinds = 12;  // lines, over all categories
constexpr double least_share = 0.01;    // of the total

std::string kind_words(const MemoryBreakdown::Kind& kind) {
  const std::string places = places_of(kind, [](std::int64_t bytes) { return bytes_words(bytes); });
  return fmt::format("    {} {}{}{}", bytes_words(kind.bytes), kind.name,
                     places.empty() ? "" : ": ", places);
}

void add_words(const MemoryBreakdown& parts, std::vector<std::string>& lines) {
  const double total = static_cast<double>(parts.total());
  // The size of the smallest kinds that get a line.
  std::vector<std::int64_t> sizes;
  for (const MemoryBreakdown::Category& category : parts.categories)
    for (const MemoryBreakdown::Kind& kind : category.kinds) sizes.push_back(kind.bytes);
  std::ranges::sort(sizes, std::greater{});
  const auto least = std::max(sizes.size() > most_kinds ? sizes[most_kinds - 1] : 0,
                              static_cast<std::int64_t>(least_share * total));
  for (const MemoryBreakdown::Category& category : parts.categories) {
    lines.push_back(fmt::format("{} {}", bytes_words(category.bytes), name_of(category.category)));
    std::int64_t others = 0;
    for (const MemoryBreakdown::Kind& kind : category.kinds) {
      if (kind.bytes < least) {
        others += kind.bytes;
      } else {
        lines.push_back(kind_words(kind));
      }
    }
    if (others > 0 && others < category.bytes)
      lines.push_back(fmt::format("    {} of other kinds", bytes_words(others)));
  }
}

void add_words(const MemorySample& sample, std::vector<std::string>& lines) {
  for (const MemoryCategory category : all_memory_categories)
    if (const std::int64_t bytes = sample.bytes[static_cast<std::size_t>(category)]; bytes > 0)
      lines.push_back(fmt::format("{} {}", bytes_words(bytes), name_of(category)));
}

}  // namespace

std::vector<std::string> memory_words_at(const Timeline& timeline, const RankTimeline& rank,
                                         Picoseconds at, Picoseconds origin) {
  const auto after = std::ranges::upper_bound(rank.memory, at, {}, &MemorySample::at);
  if (after == rank.memory.begin()) return {};
  const MemorySample& sample = *std::prev(after);
  std::vector<std::string> lines{fmt::format(
      "rank {} at {}: {}", rank.rank, duration_words(at - origin), bytes_words(sample.total()))};
  if (const auto parts = memory_breakdown_at(timeline, rank, at))
    add_words(*parts, lines);
  else
    add_words(sample, lines);
  return lines;
}

std::vector<std::string> memory_words_at_peak(const Timeline& timeline, const RankTimeline& rank,
                                              int step) {
  const auto title = [&](std::int64_t bytes) {
    return fmt::format("rank {}, peak of step {}: {}", rank.rank, step, bytes_words(bytes));
  };
  if (const auto peak = peak_of_steps(rank, step, step)) {
    const MemoryBreakdown parts = memory_breakdown(timeline, rank, peak->state);
    std::vector<std::string> lines{title(parts.total())};
    add_words(parts, lines);
    return lines;
  }
  const auto sample = memory_peak(timeline, rank, step);
  if (!sample) return {};
  std::vector<std::string> lines{title(sample->total())};
  add_words(*sample, lines);
  return lines;
}

}  // namespace lockstep::viz
