#include "viz/read/report/prediction_mismatch.h"

#include <fmt/format.h>

namespace lockstep {

namespace {

/// The differences from the prediction in one rank's phase.
std::vector<std::string> mismatches_of(int rank, const PhaseResults& results) {
  std::vector<std::string> found;
  const char* const source = results.predicted.by_dry_run ? "recomputed" : "predicted";
  for (const Operation operation : all_operations) {
    const Figure& predicted = results.predicted.bytes_sent[operation];
    const std::int64_t sent = results.bytes_sent[operation] / results.phase.steps;
    if (!predicted || *predicted == sent) continue;
    found.push_back(fmt::format("rank {} sent {} B of {} per step, {} {} B", rank, sent,
                                name_of(operation), source, *predicted));
  }
  for (const MemoryCategory category : all_memory_categories) {
    const Figure& predicted = results.predicted.peak_bytes[category];
    const std::int64_t peak = results.peak.of(category);
    if (!predicted || *predicted == peak) continue;
    found.push_back(fmt::format("rank {} had a peak of {} B of {} memory, {} {} B", rank, peak,
                                name_of(category), source, *predicted));
  }
  return found;
}

}  // namespace

std::vector<std::string> prediction_mismatches(const std::vector<RankResults>& ranks) {
  std::vector<std::string> lines;
  for (std::size_t p = 0; !ranks.empty() && p < ranks.front().phases.size(); ++p) {
    std::vector<std::string> found;
    for (const RankResults& rank : ranks)
      for (std::string& each : mismatches_of(rank.rank, rank.phases[p]))
        found.push_back(std::move(each));
    if (found.empty()) continue;
    const std::string& phase = ranks.front().phases[p].phase.name;
    std::string line = (phase.empty() ? "" : phase + ": ") + found.front();
    if (found.size() > 1) line += fmt::format(" (and {} more differ)", found.size() - 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace lockstep
