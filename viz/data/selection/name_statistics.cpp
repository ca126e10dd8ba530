#include "viz/data/selection/name_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace lockstep::viz {
namespace {

bool is_of_kind(const SpanKind& kind, int rank, const TimelineSpan& span) {
  if (span.category != kind.category || (kind.rank >= 0 && kind.rank != rank)) return false;
  SpanKind own = kind_of_span(span);
  own.rank = kind.rank;
  return own == kind;
}

/// The order in which jumps visit spans.
using JumpOrder = std::tuple<Picoseconds, int, int, Picoseconds>;
JumpOrder jump_order(const RankTimeline& rank, const Lane& lane, const TimelineSpan& span) {
  return {span.start, rank.rank, lane.tid(), -span.end};
}

}  // namespace

SpanKind kind_of_span(const TimelineSpan& span) {
  if (span.is_action()) return {.category = span.category, .stage = span.stage};
  return {.category = span.category, .name = span.name, .group = span.group};
}

std::string kind_words(const Timeline& timeline, const SpanKind& kind) {
  std::string words{timeline.name(kind.name)};
  if (kind.name == 0) words = name_of(kind.category);
  if (kind.stage >= 0) words += fmt::format(", stage {}", kind.stage);
  if (kind.category == Category::wait) words = "wait: " + words;
  if (kind.group != 0) words += ", " + timeline.name(kind.group);
  return words;
}

std::size_t NameStatistics::Hash::operator()(const SpanKind& kind) const {
  std::uint64_t hash = static_cast<std::uint64_t>(kind.category);
  for (const std::uint64_t part :
       {std::uint64_t{kind.name}, std::uint64_t{kind.group}, static_cast<std::uint64_t>(kind.stage),
        static_cast<std::uint64_t>(kind.rank)})
    hash = (hash ^ part) * 0x9e3779b97f4a7c15ULL + (hash >> 29);
  return static_cast<std::size_t>(hash ^ (hash >> 32));
}

void NameStatistics::begin(const Timeline& timeline) {
  begun_ = true;
  spans_ = timeline.span_count();
  at_ = {};
  totals_.clear();
  index_.clear();
  ++version_;
}

void NameStatistics::update(const Timeline& timeline, const Interval& range, bool by_rank,
                            std::chrono::microseconds budget) {
  if (!begun_ || range != range_ || by_rank != by_rank_) {
    shown_ = false;
    range_ = range;
    by_rank_ = by_rank;
    begin(timeline);
  } else if (at_.complete && timeline.span_count() != spans_) {
    complete_totals_ = totals_;
    shown_ = true;
    begin(timeline);
  }
  if (at_.complete) return;
  std::size_t last = 0;
  const bool done =
      scan_spans(timeline, range, at_, budget,
                 [&](const RankTimeline& rank, const Lane&, const TimelineSpan& span) {
                   SpanKind kind = kind_of_span(span);
                   if (by_rank) kind.rank = rank.rank;
                   if (last >= totals_.size() || !(totals_[last].kind == kind)) {
                     const auto [found, fresh] = index_.try_emplace(kind, totals_.size());
                     if (fresh)
                       totals_.push_back({.kind = kind,
                                          .shortest = std::numeric_limits<Picoseconds>::max(),
                                          .longest = std::numeric_limits<Picoseconds>::min()});
                     last = found->second;
                   }
                   NameTotal& total = totals_[last];
                   ++total.count;
                   const Picoseconds inside =
                       std::min(span.end, range.end) - std::max(span.start, range.start);
                   total.inside = plus(total.inside, std::max<Picoseconds>(inside, 0));
                   total.whole = plus(total.whole, span.duration());
                   total.shortest = std::min(total.shortest, span.duration());
                   total.longest = std::max(total.longest, span.duration());
                 });
  if (done) {
    shown_ = false;
    complete_totals_.clear();
  }
  ++version_;
}

const NameTotal* NameStatistics::find(const SpanKind& kind) const {
  const auto& all = totals();
  if (!shown_) {
    const auto found = index_.find(kind);
    return found == index_.end() ? nullptr : &all[found->second];
  }
  const auto found = std::ranges::find(all, kind, &NameTotal::kind);
  return found == all.end() ? nullptr : &*found;
}

double share_of_time(const NameTotal& total, const Interval& range, std::size_t ranks) {
  const double all = static_cast<double>(range.end - range.start) * static_cast<double>(ranks);
  return all > 0 ? static_cast<double>(total.inside) / all : 0;
}

std::vector<NameTotal> sorted_totals(const Timeline& timeline, std::vector<NameTotal> totals,
                                     NameColumn by, bool reversed, std::size_t most) {
  // Ties are broken so that the order does not depend on the order of the spans.
  const auto key = [&](const NameTotal& total) {
    const SpanKind& kind = total.kind;
    return std::tuple{std::string_view{timeline.name(kind.name)}, kind.category, kind.stage,
                      std::string_view{timeline.name(kind.group)}, kind.rank};
  };
  const auto value = [&](const NameTotal& total) -> double {
    switch (by) {
      case NameColumn::count:
        return static_cast<double>(total.count);
      case NameColumn::mean:
        return total.mean();
      case NameColumn::min:
        return static_cast<double>(total.shortest);
      case NameColumn::max:
        return static_cast<double>(total.longest);
      case NameColumn::name:
        return 0;
      case NameColumn::total:
      case NameColumn::share:
        break;
    }
    return static_cast<double>(total.inside);
  };
  const auto before = [&](const NameTotal& a, const NameTotal& b) {
    if (by == NameColumn::name) return reversed ? key(b) < key(a) : key(a) < key(b);
    const double first = value(a), second = value(b);
    if (first != second) return reversed ? first < second : first > second;
    return key(a) < key(b);
  };
  most = std::min(most, totals.size());
  std::partial_sort(totals.begin(), totals.begin() + static_cast<std::ptrdiff_t>(most),
                    totals.end(), before);
  totals.resize(most);
  return totals;
}

std::vector<Picoseconds> bin_limits(Picoseconds shortest, Picoseconds longest) {
  std::vector<Picoseconds> limits{shortest};
  constexpr auto bins = static_cast<double>(DurationHistogram::most_bins);
  const auto low = static_cast<double>(shortest), high = static_cast<double>(longest);
  const bool geometric = low > 0 && high > DurationHistogram::widest_linear * low;
  for (std::size_t i = 1; i < DurationHistogram::most_bins; ++i) {
    const double share = static_cast<double>(i) / bins;
    const double limit = geometric ? low * std::pow(high / low, share) : low + (high - low) * share;
    const auto whole = static_cast<Picoseconds>(std::llround(std::min(limit, high)));
    if (whole > limits.back() && whole < longest) limits.push_back(whole);
  }
  limits.push_back(longest);  // of a single duration, the only bin has no width
  return limits;
}

void DurationHistogram::update(const Timeline& timeline, const Interval& range,
                               const NameTotal& total, std::chrono::microseconds budget) {
  if (kind_ != total.kind || range_ != range || spans_ != timeline.span_count() ||
      shortest_ != total.shortest || longest_ != total.longest) {
    kind_ = total.kind;
    range_ = range;
    spans_ = timeline.span_count();
    shortest_ = total.shortest;
    longest_ = total.longest;
    at_ = {};
    limits_ = bin_limits(shortest_, longest_);
    geometric_ = shortest_ > 0 &&
                 static_cast<double>(longest_) > widest_linear * static_cast<double>(shortest_);
    counts_.assign(limits_.size() - 1, 0);
  }
  if (at_.complete) return;
  scan_spans(timeline, range, at_, budget,
             [&](const RankTimeline& rank, const Lane&, const TimelineSpan& span) {
               if (!is_of_kind(*kind_, rank.rank, span)) return;
               const auto above = std::ranges::upper_bound(limits_, span.duration());
               const auto bin = std::max<std::ptrdiff_t>(above - limits_.begin(), 1) - 1;
               ++counts_[std::min(static_cast<std::size_t>(bin), counts_.size() - 1)];
             });
}

std::pair<Picoseconds, Picoseconds> DurationHistogram::bounds(std::size_t bin) const {
  const bool last = bin + 1 == counts_.size();
  return {limits_[bin], last ? limits_[bin + 1] : limits_[bin + 1] - 1};
}

std::optional<Finding> next_of_kind(const Timeline& timeline, const KindSearch& search,
                                    const Finding& selected) {
  std::optional<JumpOrder> from;
  if (selected.kind == Finding::Kind::span && selected.rank && selected.lane)
    from = jump_order(*selected.rank, *selected.lane, selected.span);
  std::optional<Finding> next, first;
  const auto order = [](const Finding& finding) {
    return jump_order(*finding.rank, *finding.lane, finding.span);
  };
  // Finds the first span of the row after `after`, unless `best` is earlier.
  const auto look_in = [&](const RankTimeline& rank, const Lane& lane, const SpanRow& row,
                           const std::optional<JumpOrder>& after, std::optional<Finding>& best) {
    const Picoseconds start = after ? std::get<0>(*after) : std::numeric_limits<Picoseconds>::min();
    auto at = std::partition_point(row.begin(), row.end(), [&](const TimelineSpan& span) {
      return span.end < search.range.start || span.start < start;
    });
    for (; at != row.end() && at->start < search.range.end; ++at) {
      if (best && at->start > best->span.start) return;
      const Picoseconds duration = at->duration();
      if (duration < search.shortest || duration > search.longest || !overlaps(*at, search.range) ||
          !is_of_kind(search.kind, rank.rank, *at))
        continue;
      const JumpOrder here = jump_order(rank, lane, *at);
      if (after && here <= *after) continue;
      if (!best || here < order(*best))
        best = Finding{.kind = Finding::Kind::span, .rank = &rank, .lane = &lane, .span = *at};
      return;
    }
  };
  const auto look = [&](const std::optional<JumpOrder>& after, std::optional<Finding>& best) {
    for (const auto& rank : timeline.ranks()) {
      if (search.kind.rank >= 0 && search.kind.rank != rank->rank) continue;
      for (const auto& lane : rank->lanes)
        for (const SpanRow& row : lane->rows(band_of(search.kind.category)))
          look_in(*rank, *lane, row, after, best);
    }
  };
  if (from) look(from, next);
  if (next) return next;
  look({}, first);
  return first;
}

}  // namespace lockstep::viz
