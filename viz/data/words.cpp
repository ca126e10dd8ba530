#include "viz/data/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/run/report/text_table.h"

namespace lockstep::viz {
namespace {

struct Unit {
  double picoseconds;
  const char* name;
};
constexpr Unit units[] = {{1e12, "s"}, {1e9, "ms"}, {1e6, "µs"}, {1e3, "ns"}, {1, "ps"}};

Unit unit_for(double picoseconds) {
  for (const Unit& unit : units) {
    if (std::abs(picoseconds) >= unit.picoseconds) return unit;
  }
  return units[4];
}

const char* action_words(Category category) {
  switch (category) {
    case Category::forward:
      return "forward";
    case Category::backward:
      return "backward";
    case Category::backward_input:
      return "input gradient";
    case Category::backward_weight:
      return "weight gradient";
    case Category::recompute:
      return "recomputation";
    default:
      return nullptr;
  }
}

/// Returns "to", "from" or, if the direction of a message is not known, "with".
const char* direction_words(const std::string& name, const RankTimeline& rank, const Lane& lane) {
  if (name.starts_with("send")) return "to";
  if (name.starts_with("rec")) return "from";
  const bool sends = rank.sending_lanes.contains(lane.tid());
  const bool receives = rank.receiving_lanes.contains(lane.tid());
  return sends == receives ? "with" : sends ? "to" : "from";
}

}  // namespace

std::string duration_words(double picoseconds) {
  if (picoseconds == 0) return "0 s";
  const Unit unit = unit_for(picoseconds);
  const double value = picoseconds / unit.picoseconds;
  const int decimals = unit.picoseconds == 1 ? 0 : std::abs(value) >= 100 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, unit.name);
}

double round_spacing(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

std::string axis_words(double picoseconds, double spacing) {
  const Unit unit = unit_for(std::max(std::abs(picoseconds), spacing));
  const double digits = -std::floor(std::log10(spacing / unit.picoseconds) + 1e-9);
  return fmt::format("{:.{}f} {}", picoseconds / unit.picoseconds,
                     static_cast<int>(std::clamp(digits, 0.0, 9.0)), unit.name);
}

std::string percent_words(double share) {
  return percent(share);
}

std::string list_words(const std::vector<std::string>& words) {
  std::string list;
  for (std::size_t i = 0; i < words.size(); ++i)
    list += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return list;
}

std::string bytes_words(double bytes) {
  return human_bytes(std::llround(bytes));
}

std::string step_words(const Timeline& timeline, int step) {
  const std::string& phase = timeline.prediction(step).phase;
  return fmt::format("step {}{}{}", step, phase.empty() ? "" : ", ", phase);
}

std::string exposed_words(const Exposed& sum, double ranks) {
  std::string words;
  const auto part = [&](const char* name, Picoseconds time) {
    if (time == 0) return;
    if (!words.empty()) words += ", ";
    words += name + (" " + duration_words(static_cast<double>(time) / ranks));
  };
  part(name_of(StepPart::transfer), sum.transfer);
  part(name_of(StepPart::latency), sum.latency);
  part(name_of(StepPart::late_peer), sum.late_peer);
  return words;
}

std::string span_words(const Timeline& timeline, const RankTimeline& rank, const Lane& lane,
                       const TimelineSpan& span) {
  const std::string& name = timeline.name(span.name);
  std::string words;
  if (const char* action = action_words(span.category)) {
    words = action;
    if (span.microbatch >= 0) words += fmt::format(" of microbatch {}", span.microbatch);
    if (span.stage >= 0) words += fmt::format(" on stage {}", span.stage);
    if (span.layer >= 0) words += fmt::format(", layer {}", span.layer);
    return words;
  }
  const std::string number =
      span.group_size > 1 && span.sequence >= 0 ? fmt::format(" {}", span.sequence) : std::string{};
  if (span.category == Category::wait) {
    words = name.empty() || name == "wait" ? "idle, waiting" : "idle, waiting for " + name + number;
    if (span.microbatch >= 0) words += fmt::format(" of microbatch {}", span.microbatch);
    // With blocking sends, a rank also waits until its message has left.
    if (span.peer >= 0)
      words += fmt::format(" {} rank {}", name == "send" ? "to" : "from", span.peer);
    return words;
  }
  if (span.category == Category::communication) {
    words = name + number;
    if (span.peer >= 0)
      words += fmt::format(" {} rank {}", direction_words(name, rank, lane), span.peer);
    if (span.microbatch >= 0) words += fmt::format(", microbatch {}", span.microbatch);
    if (span.group_size > 1 && span.peer < 0) words += fmt::format(" of {} ranks", span.group_size);
    return words;
  }
  if (span.category == Category::optimizer && name.empty()) return "optimizer";
  if (span.category == Category::step) return fmt::format("step {}", span.step);
  return name.empty() ? name_of(span.category) : name;
}

}  // namespace lockstep::viz
