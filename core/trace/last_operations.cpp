#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "core/time/clock.h"
#include "core/trace/format.h"
#include "core/trace/recorder.h"
#include "core/trace/recorder_lane.h"

namespace lockstep {

namespace {

/// Formats a duration with two or three digits and a unit.
std::string words_of(double seconds) {
  if (seconds < 1e-6) return fmt::format("{:.0f} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.3g} µs", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 100) return fmt::format("{:.1f} s", seconds);
  return fmt::format("{:.0f} s", seconds);
}

struct TracedOperation {
  Span span;
  int lane = 0;
  Picoseconds start = 0, end = 0;
  double open_for = -1;  ///< wall-clock seconds
};

}  // namespace

std::string Recorder::describe(int lane, const Span& span) const {
  std::string words;
  if (span.step >= 0) words += fmt::format("step {}, ", span.step);
  append_name(words, span);
  if (span.layer >= 0) words += fmt::format(" of layer {}", span.layer);
  if (span.peer >= 0)
    words += fmt::format(" {} rank {}",
                         span.role == MessageRole::receives ? "from"
                         : span.role == MessageRole::sends  ? "to"
                                                            : "with",
                         span.peer);
  return words + " on " + lanes()[static_cast<std::size_t>(lane)];
}

std::vector<std::string> Recorder::last_operations(int count) const {
  std::vector<TracedOperation> ended, open;
  const std::int64_t now = steady_nanoseconds();
  block_->each([&](int id, const Lane& lane) {
    for (const Record::Words& words : lane.queue.last())
      if (Record::kind(words) == Record::Kind::span)
        ended.push_back({Record::span(words), id, Record::start(words), Record::end(words)});
    for (int i = 0; i < RecordQueue::most_open; ++i) {
      RecordQueue::Open seen;
      if (!lane.queue.look(i, seen)) continue;
      const Picoseconds start = Record::start(seen.words);
      const std::int64_t since = opened(seen.since, start);
      open.push_back({Record::span(seen.words), id, start, start,
                      std::max(0.0, static_cast<double>(now - since) * 1e-9)});
    }
  });
  // An enclosing span starts before the spans it contains, and ends no earlier than they do.
  std::ranges::stable_sort(ended, [](const TracedOperation& a, const TracedOperation& b) {
    return std::tuple{a.end, -a.start} < std::tuple{b.end, -b.start};
  });
  std::ranges::stable_sort(open, [](const TracedOperation& a, const TracedOperation& b) {
    return a.open_for > b.open_for;
  });

  const Clock* clock = clock_.load(std::memory_order_acquire);
  const bool modelled = clock != nullptr && clock->is_modelled();
  std::vector<std::string> lines;
  const std::size_t shown = std::min(ended.size(), static_cast<std::size_t>(std::max(count, 0)));
  for (std::size_t i = ended.size() - shown; i < ended.size(); ++i) {
    const TracedOperation& each = ended[i];
    std::string line =
        describe(each.lane, each.span) + ": " + words_of(seconds(each.end - each.start));
    if (modelled) line += " of modelled time";
    if (on_wall_clock()) {
      const double ago = std::max(0.0, seconds(clock->since_start(now) - each.end));
      line += fmt::format(", ended {} ago", words_of(ago));
    }
    lines.push_back(std::move(line));
  }
  for (const TracedOperation& each : open)
    lines.push_back(describe(each.lane, each.span) + ": open for " + words_of(each.open_for));
  return lines;
}

std::optional<Recorder::OpenNow> Recorder::innermost_open(int lane) const {
  std::optional<Span> innermost;
  std::int64_t latest = 0;
  for (int i = 0; i < RecordQueue::most_open; ++i) {
    RecordQueue::Open seen;
    if (!block_->lane(static_cast<std::size_t>(lane)).queue.look(i, seen)) continue;
    const std::int64_t since = opened(seen.since, Record::start(seen.words));
    if (innermost && since < latest) continue;
    innermost = Record::span(seen.words);
    latest = since;
  }
  if (!innermost) return {};
  OpenNow open;
  append_name(open.name, *innermost);
  open.seconds = std::max(0.0, static_cast<double>(steady_nanoseconds() - latest) * 1e-9);
  return open;
}

}  // namespace lockstep
