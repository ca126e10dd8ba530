#include "viz/read/report/memory_at_peak.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "core/text/text_table.h"

namespace lockstep {

namespace {

/// The kind of unnamed tensors (MemoryParts).
constexpr const char* no_name = "other";
/// Kinds with a smaller share of the total are combined.
constexpr double least_share = 0.03;
/// A category with at most this many kinds shows them all.
constexpr std::size_t most_always_shown = 3;

}  // namespace

std::optional<MemoryAtPeak> memory_at_peak(const Report& report, std::size_t rank,
                                           const Phase& phase) {
  const RankTimeline* found = report.timeline.find_rank(report.results.ranks[rank].rank);
  if (found == nullptr) return {};
  const auto peak = peak_of_steps(*found, phase.first_step, phase.first_step + phase.steps - 1);
  if (!peak) return {};
  return MemoryAtPeak{found->rank, peak->step,
                      memory_breakdown(report.timeline, *found, peak->state)};
}

std::string peak_table(const Report& report) {
  if (report.results.ranks.front().phases.empty()) return {};
  const auto highest = std::ranges::max_element(
      report.results.ranks, {},
      [](const RankResults& rank) { return rank.phases.back().peak_total; });
  const auto peak =
      memory_at_peak(report, static_cast<std::size_t>(highest - report.results.ranks.begin()),
                     report.results.phases().back());
  if (!peak) return {};
  const std::int64_t total = peak->parts.total();
  const auto share = [&](std::int64_t bytes) {
    return percent(static_cast<double>(bytes) /
                   static_cast<double>(std::max<std::int64_t>(total, 1)));
  };
  TableRows rows;
  std::vector<std::string> places;  // to the right of each row
  const auto add = [&](const std::string& what, std::int64_t bytes, const std::string& where) {
    rows.push_back({what, human_bytes(bytes), bytes == total ? "" : share(bytes)});
    places.push_back(where);
  };
  const std::string phase =
      report.results.phases().size() > 1 ? ", " + report.results.phases().back().name : "";
  add(fmt::format("memory of rank {} at its peak{}", peak->rank, phase), total, "");
  for (const MemoryBreakdown::Category& category : peak->parts.categories) {
    const std::string name = name_of(category.category);
    const auto& kinds = category.kinds;
    if (kinds.size() == 1) {
      const std::string kind = kinds.front().name == no_name ? "" : ": " + kinds.front().name;
      add(name + kind, category.bytes, places_of(kinds.front(), human_bytes));
      continue;
    }
    add(name, category.bytes, "");
    // Kinds are sorted, so the small ones come last.
    const auto is_small = [&](const MemoryBreakdown::Kind& kind) {
      return static_cast<double>(kind.bytes) < least_share * static_cast<double>(total);
    };
    auto shown =
        kinds.size() <= most_always_shown ? kinds.end() : std::ranges::find_if(kinds, is_small);
    if (shown == kinds.begin()) continue;
    if (kinds.end() - shown == 1) ++shown;
    std::int64_t others = category.bytes;
    for (auto kind = kinds.begin(); kind != shown; ++kind) {
      add("  " + kind->name, kind->bytes, places_of(*kind, human_bytes));
      others -= kind->bytes;
    }
    if (others > 0) add(fmt::format("  {} more kinds", kinds.end() - shown), others, "");
  }
  std::istringstream lines{table(rows)};
  std::string text, line;
  for (const std::string& where : places) {
    std::getline(lines, line);
    text += line.substr(0, line.find_last_not_of(' ') + 1);
    text += (where.empty() ? "" : "   " + where) + "\n";
  }
  return text;
}

}  // namespace lockstep
