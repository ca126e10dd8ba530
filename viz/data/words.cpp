#include "viz/data/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/run/report/text_table.h"
#include "viz/data/explanations.h"
#include "viz/data/folding.h"

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

std::string exposed_words(const StepParts& sum, double ranks) {
  std::string words;
  const auto part = [&](const char* name, Picoseconds time) {
    if (time == 0) return;
    if (!words.empty()) words += ", ";
    words += name + (" " + duration_words(static_cast<double>(time) / ranks));
  };
  part("transfer", sum.transfer);
  part("latency", sum.latency);
  part("late peer", sum.late_peer);
  return words;
}

std::string span_words(const Timeline& timeline, const TimelineSpan& span) {
  const std::string& name = timeline.name(span.name);
  std::string words;
  if (const char* action = action_words(span.category)) {
    words = action;
    if (span.microbatch >= 0) words += fmt::format(" of microbatch {}", span.microbatch);
    if (span.stage >= 0) words += fmt::format(" on stage {}", span.stage);
    if (span.layer >= 0) words += fmt::format(", layer {}", span.layer);
    return words;
  }
  if (span.category == Category::wait) {
    words = name.empty() || name == "wait" ? "idle, waiting" : "idle, waiting for " + name;
    if (span.microbatch >= 0) words += fmt::format(" of microbatch {}", span.microbatch);
    if (span.peer >= 0) words += fmt::format(" from rank {}", span.peer);
    return words;
  }
  if (span.category == Category::communication) {
    words = name;
    if (span.peer >= 0) {
      words += fmt::format("{} rank {}", name.starts_with("rec") ? " from" : " to", span.peer);
    }
    if (span.microbatch >= 0) words += fmt::format(", microbatch {}", span.microbatch);
    if (span.group_size > 1 && span.peer < 0) words += fmt::format(" of {} ranks", span.group_size);
    return words;
  }
  if (span.category == Category::optimizer && name.empty()) return "optimizer";
  if (span.category == Category::step) return fmt::format("step {}", span.step);
  return name.empty() ? name_of(span.category) : name;
}

namespace {

/// Looks for a span or gap at `time` in one row. Returns true if it found one.
bool find_in(const SpanRow& row, double time, double tolerance, Finding& finding) {
  const auto first = first_ending_after(row, time - tolerance);
  double covered = 0;
  int count = 0;
  const TimelineSpan* nearest = nullptr;
  double distance = 0;
  for (auto at = first; at != row.end() && static_cast<double>(at->start) < time + tolerance;
       ++at) {
    const auto start = static_cast<double>(at->start);
    const auto end = static_cast<double>(at->end);
    const double away = std::max({start - time, time - end, 0.0});
    if (!nearest || away < distance) {
      nearest = &*at;
      distance = away;
    }
    covered += std::min(end, time + tolerance) - std::max(start, time - tolerance);
    ++count;
  }
  if (!nearest) return false;
  const bool small = static_cast<double>(nearest->duration()) < 2 * tolerance;
  if (count > 2 && small) {
    finding.kind = Finding::Kind::folded;
    finding.count = count;
    finding.cover = covered / (2 * tolerance);
    finding.span = *nearest;
  } else if (distance == 0 || small) {
    finding.kind = Finding::Kind::span;
    finding.span = *nearest;
  } else {
    return false;
  }
  return true;
}

}  // namespace

Finding find_at(const RankTimeline& rank, const Lane& lane, Band band, double time,
                double tolerance, std::size_t deepest) {
  const Finding nothing{.rank = &rank, .lane = &lane};
  Finding finding = nothing, hidden = nothing;
  const auto& rows = lane.rows(band);
  // Search the innermost rows first, to report the wait within a forward rather than the forward
  // itself.
  for (std::size_t i = rows.size(); i-- > 0;) {
    finding = nothing;
    if (!find_in(rows[i], time, tolerance, finding)) continue;
    if (i <= deepest || finding.span.category == Category::wait) return finding;
    if (hidden.kind == Finding::Kind::nothing) hidden = finding;
  }
  if (hidden.kind != Finding::Kind::nothing) return hidden;
  finding = nothing;
  if (band == Band::action) {
    for (const AnnouncedSpan& open : lane.open()) {
      const bool within = static_cast<double>(open.span.start) <= time + tolerance &&
                          time - tolerance <= static_cast<double>(open.span.end);
      if (!within || (finding.open && open.span.start < finding.span.start)) continue;
      finding.kind = Finding::Kind::span;
      finding.span = open.span;
      finding.open = true;
    }
    if (finding.open) return finding;
  }
  if (rows.empty() || rows.front().empty()) return finding;
  const auto next = first_ending_after(rows.front(), time);
  if (next == rows.front().begin() || next == rows.front().end()) return finding;
  finding.kind = Finding::Kind::idle;
  finding.span.start = std::prev(next)->end;
  finding.span.end = next->start;
  return finding;
}

std::vector<std::string> finding_words(const Timeline& timeline, const Finding& finding,
                                       Picoseconds origin) {
  const TimelineSpan& span = finding.span;
  std::vector<std::string> lines;
  const auto length = duration_words(span.duration());
  // Both times have as many decimal places as three significant digits of the duration require, so
  // that start and end differ.
  const double grain =
      std::pow(10, std::floor(std::log10(std::max(static_cast<double>(span.duration()), 1.0))) - 2);
  const auto times =
      fmt::format("{} to {}", axis_words(static_cast<double>(span.start - origin), grain),
                  axis_words(static_cast<double>(span.end - origin), grain));
  switch (finding.kind) {
    case Finding::Kind::nothing:
      return lines;
    case Finding::Kind::folded:
      lines.push_back(fmt::format("{} spans, {:.0f} % full", finding.count, 100 * finding.cover));
      lines.push_back("for example: " + span_words(timeline, span) + ", " + length);
      lines.emplace_back("zoom in to see each of them");
      return lines;
    case Finding::Kind::idle:
      if (finding.idle) {
        lines.push_back(fmt::format("idle: {}", name_of(main_cause(*finding.idle))));
        lines.push_back(idle_sentence(*finding.idle));
        lines.push_back(length + ": " + cause_words(finding.idle->causes));
      } else {
        lines.push_back(finding.lane->is_compute() ? "idle" : "nothing in flight");
        lines.push_back(length);
      }
      lines.push_back(times);
      return lines;
    case Finding::Kind::span:
      break;
  }
  lines.push_back(span_words(timeline, span) + (finding.open ? " (still running)" : ""));
  lines.push_back(finding.open ? "for more than " + length : length);
  lines.push_back(times);
  std::string where = finding.rank->name + ", " + finding.lane->name();
  if (span.step >= 0) where += fmt::format(", step {}", span.step);
  lines.push_back(where);
  if (span.bytes >= 0) {
    std::string sent = bytes_words(span.bytes);
    // A wait's duration does not depend on its bytes, so bytes / duration is meaningless.
    if (span.duration() > 0 && span.category != Category::wait) {
      sent += fmt::format(", {}/s", bytes_words(static_cast<double>(span.bytes) /
                                                static_cast<double>(span.duration()) * 1e12));
    }
    lines.push_back(sent);
  }
  if (span.group != 0) {
    std::string group = "group " + timeline.name(span.group);
    if (span.group_size > 0) group += fmt::format(" of {} ranks", span.group_size);
    if (span.algorithm != 0) group += ", " + timeline.name(span.algorithm);
    lines.push_back(group);
  }
  return lines;
}

}  // namespace lockstep::viz
