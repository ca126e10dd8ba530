#include "viz/data/selection/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/printable.h"
#include "viz/data/selection/causes.h"
#include "viz/data/step/words.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t named_kinds = 4;    // kinds of spans that the words for a fold name
constexpr std::size_t longest_kind = 40;  // bytes of a kind's name

/// Counts the spans of each kind and name; sorts by count, largest first.
std::vector<Finding::Kinds> kinds_in(SpanRow::const_iterator first, SpanRow::const_iterator last) {
  std::map<std::pair<Category, NameId>, int> counts;
  // The names of passes may contain the microbatch, so passes are counted by kind.
  for (; first != last; ++first)
    ++counts[{first->category, letter_of(first->category) != 0 ? 0 : first->name}];
  std::vector<Finding::Kinds> kinds;
  for (const auto& [key, count] : counts) kinds.push_back({key.first, key.second, count});
  std::ranges::stable_sort(kinds, std::ranges::greater{}, &Finding::Kinds::count);
  return kinds;
}

/// Lists the most frequent kinds: "201 gemm, 88 add and 23 others".
std::string fold_words(const Timeline& timeline, const std::vector<Finding::Kinds>& kinds) {
  std::vector<std::string> words;
  int others = 0;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const auto& [category, id, count] = kinds[i];
    if (i >= named_kinds) {
      others += count;
      continue;
    }
    const std::string& name = timeline.name(id);
    const std::string kind = letter_of(category) != 0 || name.empty() ? name_of(category) : name;
    words.push_back(fmt::format("{} {}", count, excerpt(kind, longest_kind)));
  }
  if (others > 0) words.push_back(fmt::format("{} other{}", others, others == 1 ? "" : "s"));
  return list_words(words);
}

/// Looks for a span or gap at `time` in one row. Returns true if it found one.
bool find_in(const SpanRow& row, double time, double tolerance, Finding& finding) {
  const auto first = first_ending_after(row, time - tolerance);
  double covered = 0;
  int count = 0;
  auto nearest = row.end();
  double distance = 0;
  auto at = first;
  for (; at != row.end() && static_cast<double>(at->start) < time + tolerance; ++at) {
    const auto start = static_cast<double>(at->start);
    const auto end = static_cast<double>(at->end);
    const double away = std::max({start - time, time - end, 0.0});
    if (nearest == row.end() || away < distance) {
      nearest = at;
      distance = away;
    }
    if (at->category != Category::wait)
      covered += std::min(end, time + tolerance) - std::max(start, time - tolerance);
    ++count;
  }
  if (nearest == row.end()) return false;
  const bool small = static_cast<double>(nearest->duration()) < 2 * tolerance;
  if (count > 2 && small) {
    finding.kind = Finding::Kind::folded;
    finding.count = count;
    finding.cover = covered / (2 * tolerance);
    finding.around = 2 * tolerance;
    finding.kinds = kinds_in(first, at);
    finding.span = *nearest;
  } else if (distance == 0 || small) {
    finding.kind = Finding::Kind::span;
    finding.span = *nearest;
  } else {
    return false;
  }
  return true;
}

int spans_around(const std::vector<SpanRow>& rows, double time, double tolerance) {
  std::ptrdiff_t count = 0;
  for (const SpanRow& row : rows) {
    const auto first = first_ending_after(row, time - tolerance);
    const auto last = std::partition_point(first, row.end(), [&](const TimelineSpan& span) {
      return static_cast<double>(span.start) < time + tolerance;
    });
    count += last - first;
  }
  return static_cast<int>(count);
}

/// Names the rank of a wait, the rank that it waits for, and the key that leads to the cause; ""
/// for anything else.
std::string waiting_words(const Timeline& timeline, const Finding& finding) {
  const bool waits = finding.piece
                         ? is_exposed(finding.piece->part) || is_bubble(finding.piece->part)
                         : finding.kind == Finding::Kind::span && !finding.open &&
                               finding.span.category == Category::wait;
  if (!waits || !finding.rank) return {};
  const auto awaited = awaited_rank(timeline, finding);
  const bool known = cause_of(timeline, finding).has_value();
  // The words for a span name its rank anyway.
  if (!finding.piece && !awaited && !known) return {};
  return fmt::format("rank {} waits{}{}", finding.rank->rank,
                     awaited ? fmt::format(" for rank {}", *awaited) : "",
                     known ? "   J: go there" : "");
}

/// Looks for an object like find_at(), but leaves `count` and `around` unset.
Finding find_object(const RankTimeline& rank, const Lane& lane, Band band, double time,
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

}  // namespace

Finding find_at(const RankTimeline& rank, const Lane& lane, Band band, double time,
                double tolerance, std::size_t deepest) {
  Finding finding = find_object(rank, lane, band, time, tolerance, deepest);
  if (finding.kind == Finding::Kind::folded) return finding;
  finding.count = spans_around(lane.rows(band), time, tolerance);
  finding.around = 2 * tolerance;
  return finding;
}

void explain_idle(Finding& finding, const ExplainedStep& step, double time) {
  const bool works = (finding.kind == Finding::Kind::span && !finding.open &&
                      finding.span.category != Category::wait) ||
                     finding.kind == Finding::Kind::folded;
  if (works || finding.open) return;
  const StepPiece* piece = finding.rank ? step.piece_at(finding.rank->rank, time) : nullptr;
  // Beside a narrow wait, the rank may compute.
  if (!piece || (finding.kind == Finding::Kind::span && !is_idle(piece->part))) return;
  if (finding.kind == Finding::Kind::span) --finding.count;  // the wait that this explains
  finding.kind = Finding::Kind::idle;
  finding.span = {.start = piece->time.start, .end = piece->time.end};
  finding.piece = *piece;
  if (piece->axis >= 0) finding.axis = step.account.axes[static_cast<std::size_t>(piece->axis)];
}

std::vector<std::string> finding_words(const Timeline& timeline, const Finding& finding,
                                       Picoseconds origin) {
  const TimelineSpan& span = finding.span;
  std::vector<std::string> lines;
  const auto length = duration_words(span.duration());
  // Both times get enough decimal places to show three significant digits of the duration, so that
  // start and end differ.
  const double grain =
      std::pow(10, std::floor(std::log10(std::max(static_cast<double>(span.duration()), 1.0))) - 2);
  const auto times =
      fmt::format("{} to {}", axis_words(static_cast<double>(span.start - origin), grain),
                  axis_words(static_cast<double>(span.end - origin), grain));
  // The object may be only a part of the area that the cursor covers.
  const auto add_others = [&] {
    const bool narrow = static_cast<double>(span.duration()) < finding.around;
    if (!narrow || finding.open) return;
    const std::string covered = duration_words(finding.around);
    if (finding.kind == Finding::Kind::span && finding.count > 1)
      lines.push_back(fmt::format("one of {} spans in the {} that the cursor covers; zoom in",
                                  finding.count, covered));
    if (finding.kind == Finding::Kind::idle && finding.count > 0)
      lines.push_back(fmt::format("beside {} span{} in the {} that the cursor covers; zoom in",
                                  finding.count, finding.count == 1 ? "" : "s", covered));
  };
  const auto add_ranks = [&] {
    const std::string words = waiting_words(timeline, finding);
    if (!words.empty()) lines.push_back(words);
  };
  switch (finding.kind) {
    case Finding::Kind::nothing:
      return lines;
    case Finding::Kind::folded:
      lines.push_back(fmt::format("{} spans in {}, busy {}", finding.count,
                                  duration_words(finding.around), percent_words(finding.cover)));
      lines.push_back(fold_words(timeline, finding.kinds));
      lines.emplace_back("zoom in to see each of them");
      return lines;
    case Finding::Kind::idle:
      if (finding.piece) {
        lines.push_back(piece_title(*finding.piece, finding.axis));
        lines.push_back(piece_sentence(*finding.piece, finding.axis));
      } else {
        lines.push_back(finding.lane->is_compute() ? "idle" : "nothing in flight");
      }
      lines.push_back(length);
      add_others();
      lines.push_back(times);
      add_ranks();
      return lines;
    case Finding::Kind::span:
      break;
  }
  lines.push_back(span_words(timeline, span) + (finding.open ? " (still running)" : ""));
  lines.push_back(finding.open ? "for more than " + length : length);
  add_others();
  lines.push_back(times);
  std::string where = finding.rank->name + ", " + finding.lane->name();
  if (span.step >= 0) where += fmt::format(", step {}", span.step);
  lines.push_back(where);
  add_ranks();
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
