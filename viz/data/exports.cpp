#include "viz/data/exports.h"

#include <fmt/format.h>

#include <cctype>
#include <fstream>

#include "core/base/error.h"
#include "viz/data/range_statistics.h"

namespace lockstep::viz {

std::string statistics_csv(const Timeline& timeline, const TimeWindow& window,
                           const std::optional<Interval>& selection) {
  std::string csv =
      "range,start,length,rank,compute,idle,waiting,communication,hidden_communication,"
      "bytes_sent\n";
  const auto add = [&](const std::string& name, const Interval& range) {
    const auto seconds = [](Picoseconds time) { return static_cast<double>(time) * 1e-12; };
    for (const RankStatistics& rank : range_statistics(timeline, range).ranks)
      fmt::format_to(std::back_inserter(csv),
                     "{},{:.9f},{:.9f},{},{:.9f},{:.9f},{:.9f},{:.9f},{:.9f},{}\n", name,
                     seconds(range.start), seconds(range.end - range.start), rank.rank,
                     seconds(rank.compute), seconds(rank.idle), seconds(rank.waiting),
                     seconds(rank.communication), seconds(rank.hidden), rank.sent);
  };
  if (selection) {
    add("selection", *selection);
    return csv;
  }
  for (const StepWindow& step : timeline.steps()) {
    if (static_cast<double>(step.end) <= window.begin ||
        static_cast<double>(step.start) >= window.end || !timeline.step_complete(step))
      continue;
    add(fmt::format("step {}", step.step), {step.start, step.end});
  }
  return csv;
}

std::filesystem::path free_name(const std::filesystem::path& folder, const std::string& stem,
                                const std::string& extension) {
  std::string name;
  for (const char each : stem.substr(0, 64)) {
    const bool usual = std::isalnum(static_cast<unsigned char>(each)) || each == '_';
    if (usual || (!name.empty() && name.back() != '-')) name += usual ? each : '-';
  }
  if (name.empty()) name = "lockstep";
  std::error_code ignored;
  for (int n = 1;; ++n) {
    const auto path = folder / fmt::format("{}-{}.{}", name, n, extension);
    if (!std::filesystem::exists(path, ignored)) return path;
  }
}

void write_text(const std::filesystem::path& file, const std::string& text) {
  std::error_code ignored;
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), ignored);
  std::ofstream out{file, std::ios::binary};
  out << text;
  out.close();
  if (!out) throw RunError("can't write " + file.string());
}

}  // namespace lockstep::viz
