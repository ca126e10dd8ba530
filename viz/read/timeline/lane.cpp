#include "viz/read/timeline/lane.h"

#include <algorithm>
#include <limits>
#include <span>

namespace lockstep {
namespace {

/// Returns how many out-of-order spans may be pending before they are settled to save memory. The
/// number grows with the number of spans already placed, so that settling does not take quadratic
/// time even if all spans arrive in reverse order.
std::size_t most_pending(std::size_t placed) {
  return std::max<std::size_t>(1 << 14, placed / 8);
}

/// Orders spans by start. If starts are equal, the longer span comes first, so that enclosing spans
/// precede the spans they contain.
bool before(const TimelineSpan& a, const TimelineSpan& b) {
  return a.start != b.start ? a.start < b.start : a.end > b.end;
}

}  // namespace

Band band_of(Category category) {
  switch (category) {
    case Category::step:
      return Band::step;
    case Category::kernel:
    case Category::copy:
    case Category::host:
      return Band::kernel;
    default:
      return Band::action;
  }
}

void Lane::append(const TimelineSpan& span) {
  if (!open_.empty()) withdraw(span);
  BandRows& band = bands_[static_cast<std::size_t>(band_of(span.category))];
  const bool follows =
      band.pending.empty() && (band.rows.empty() || span.start > band.last_start ||
                               (span.start == band.last_start && span.end <= band.last_end));
  if (follows) return band.place(span);
  band.pending.push_back(span);
  if (band.pending.size() >= most_pending(band.placed)) band.settle();
}

void Lane::announce(const TimelineSpan& span) {
  const auto [at, fresh] = open_index_.try_emplace({span.start, span.name}, open_.size());
  if (fresh) {
    open_.push_back({span});
  } else {
    Picoseconds& end = open_[at->second].span.end;
    end = std::max(end, span.end);
  }
}

void Lane::withdraw(const TimelineSpan& span) {
  const auto found = open_index_.find({span.start, span.name});
  if (found == open_index_.end()) return;
  const std::size_t freed = found->second;
  open_index_.erase(found);
  if (freed + 1 < open_.size()) {
    open_[freed] = open_.back();
    open_index_[{open_[freed].span.start, open_[freed].span.name}] = freed;
  }
  open_.pop_back();
}

std::optional<TimelineSpan> Lane::name_message(std::uint64_t id, bool sends, Picoseconds at) {
  std::vector<SpanRow>& rows = bands_[static_cast<std::size_t>(Band::action)].rows;
  for (SpanRow& row : std::span{rows}.first(std::min(rows.size(), most_searched))) {
    const auto time = [&](const TimelineSpan& span) { return sends ? span.start : span.end; };
    auto i = static_cast<std::size_t>(std::ranges::lower_bound(row, at, {}, time) - row.begin());
    for (; i < row.size() && time(row[i]) == at; ++i) {
      if (row.category(i) != Category::communication || row[i].message != 0) continue;
      row.name_message(i, id, sends ? MessageRole::sends : MessageRole::receives);
      return row[i];
    }
  }
  return {};
}

void Lane::name_awaited(const TimelineSpan& wait, std::uint64_t id) {
  std::vector<SpanRow>& rows = bands_[static_cast<std::size_t>(Band::action)].rows;
  for (SpanRow& row : std::span{rows}.first(std::min(rows.size(), most_searched))) {
    const auto start = [](const TimelineSpan& span) { return span.start; };
    auto i = static_cast<std::size_t>(std::ranges::lower_bound(row, wait.start, {}, start) -
                                      row.begin());
    for (; i < row.size() && row.start(i) == wait.start; ++i)
      if (row.end(i) == wait.end && row[i].message == 0 && row[i].role == wait.role)
        return row.name_message(i, id, wait.role);
  }
}

void Lane::settle() {
  for (BandRows& band : bands_) band.settle();
}

void Lane::absorb(Lane&& other, const std::vector<NameId>& names) {
  const auto rename = [&](TimelineSpan& span) {
    span.name = names[span.name];
    span.group = names[span.group];
    const NameId algorithm = names[span.algorithm];
    span.algorithm = static_cast<std::uint16_t>(
        algorithm > std::numeric_limits<std::uint16_t>::max() ? 0 : algorithm);
  };
  other.settle();
  for (std::size_t b = 0; b < bands_.size(); ++b) {
    other.bands_[b].descriptions->change_all(rename);
    if (bands_[b].rows.empty() && bands_[b].pending.empty() && open_.empty()) {
      bands_[b] = std::move(other.bands_[b]);
      continue;
    }
    for (SpanRow& row : other.bands_[b].rows) {
      for (const TimelineSpan& span : row) append(span);
      row = {};
    }
  }
  for (AnnouncedSpan& open : other.open_) {
    rename(open.span);
    announce(open.span);
  }
}

/// Adds a span to the first row in which it fits. Spans must come in order.
void Lane::BandRows::place(const TimelineSpan& span) {
  const bool first = !rows.empty() && !rows[0].empty() && rows[0].back().end <= span.start;
  const std::size_t free = first ? 0 : ends.first_free(span.start);
  if (free == rows.size()) rows.emplace_back(descriptions);
  rows[free].push_back(span);
  ++placed;
  ends.set(free, span.end);
  last_start = span.start;
  last_end = span.end;
}

void Lane::BandRows::settle() {
  if (pending.empty()) return;
  Picoseconds earliest = pending.front().start;
  for (const TimelineSpan& span : pending) earliest = std::min(earliest, span.start);
  // Re-insert the spans that may contain a new span, lie within one or follow one; spans that ended
  // before the earliest new start stay where they are.
  constexpr Picoseconds unused = std::numeric_limits<Picoseconds>::min();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    SpanRow& row = rows[i];
    const auto keep = std::partition_point(
        row.begin(), row.end(), [&](const TimelineSpan& span) { return span.end < earliest; });
    if (keep == row.end()) continue;
    pending.insert(pending.end(), keep, row.end());
    placed -= static_cast<std::size_t>(row.end() - keep);
    row.erase_from(keep);
    ends.set(i, row.empty() ? unused : row.back().end);
  }
  if (!std::is_sorted(pending.begin(), pending.end(), before)) {
    std::stable_sort(pending.begin(), pending.end(), before);
  }
  for (const TimelineSpan& span : pending) place(span);
  std::vector<TimelineSpan>{}.swap(pending);
}

}  // namespace lockstep
