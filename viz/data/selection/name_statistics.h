#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "viz/data/selection/finding.h"
#include "viz/data/selection/span_scan.h"

namespace lockstep::viz {

/// Spans that statistics count together: the pipeline actions of one kind on one stage, or the
/// spans with the same name, category and process group; on one rank or on all ranks.
struct SpanKind {
  Category category = Category::kernel;
  NameId name = 0;   ///< 0 for pipeline actions, whose names differ by microbatch
  NameId group = 0;  ///< of a collective or a message
  int stage = -1;    ///< of a pipeline action
  int rank = -1;     ///< -1: all ranks
  bool operator==(const SpanKind&) const = default;
};
/// Returns the kind of a span; its rank is -1.
SpanKind kind_of_span(const TimelineSpan& span);
/// Names a kind: "forward, stage 2", "all_reduce, tp", "wait: recv".
std::string kind_words(const Timeline& timeline, const SpanKind& kind);

/// The spans of one kind that overlap a range of time.
struct NameTotal {
  SpanKind kind;
  std::int64_t count = 0;
  Picoseconds inside = 0;    ///< the sum of the parts of the spans inside the range
  Picoseconds whole = 0;     ///< the sum of the whole spans
  Picoseconds shortest = 0;  ///< of the whole spans
  Picoseconds longest = 0;

  double mean() const {  ///< of the whole spans
    return count > 0 ? static_cast<double>(whole) / static_cast<double>(count) : 0;
  }
};

enum class NameColumn : std::uint8_t { name, count, total, share, mean, min, max };

/// The statistics of a range's spans by name. Each frame counts some of the spans, so that a range
/// may have ten million of them.
class NameStatistics {
 public:
  /// Continues to count for about `budget`; begins again if the range, `by_rank` or the timeline's
  /// spans have changed since the last call. While the spans of an unfinished run are counted
  /// again, the last complete statistics stay.
  void update(const Timeline& timeline, const Interval& range, bool by_rank,
              std::chrono::microseconds budget);
  void clear() { *this = {}; }

  bool complete() const { return !begun_ || at_.complete; }
  /// The totals so far, in no particular order.
  const std::vector<NameTotal>& totals() const { return shown_ ? complete_totals_ : totals_; }
  const Interval& range() const { return range_; }
  bool by_rank() const { return by_rank_; }
  /// Changes whenever totals() changes.
  std::int64_t version() const { return version_; }
  const NameTotal* find(const SpanKind& kind) const;

 private:
  struct Hash {
    std::size_t operator()(const SpanKind& kind) const;
  };
  void begin(const Timeline& timeline);

  Interval range_;
  bool by_rank_ = false, begun_ = false;
  bool shown_ = false;  ///< whether `complete_totals_` are shown until the next ones are complete
  std::int64_t spans_ = -1, version_ = 0;
  ScanPosition at_;
  std::vector<NameTotal> totals_, complete_totals_;
  std::unordered_map<SpanKind, std::size_t, Hash> index_;  ///< in totals_
};

/// Returns the share of `ranks` ranks' time in a range that the spans of a total take. Nested spans
/// count, too, so the shares may add up to more than 1.
double share_of_time(const NameTotal& total, const Interval& range, std::size_t ranks);
/// Returns the first `most` totals in the order of a column: the largest first, names from A to Z,
/// or the other way round.
std::vector<NameTotal> sorted_totals(const Timeline& timeline, std::vector<NameTotal> totals,
                                     NameColumn by, bool reversed, std::size_t most);

/// The durations of the spans of one kind in a range, in bins. The limits of the bins are whole
/// picoseconds, equally wide or, if the longest span takes more than `widest_linear` times as long
/// as the shortest, in geometric progression.
class DurationHistogram {
 public:
  static constexpr std::size_t most_bins = 36;
  static constexpr double widest_linear = 8;

  /// Counts the spans of `total` for about `budget`; begins again if anything has changed.
  void update(const Timeline& timeline, const Interval& range, const NameTotal& total,
              std::chrono::microseconds budget);
  void clear() { *this = {}; }

  bool complete() const { return at_.complete; }
  /// The limits of the bins: bin i contains the durations from limits[i] to less than limits[i+1];
  /// the last bin contains its upper limit, too.
  const std::vector<Picoseconds>& limits() const { return limits_; }
  const std::vector<std::int64_t>& counts() const { return counts_; }
  bool geometric() const { return geometric_; }
  /// Returns the shortest and the longest duration that belong to a bin.
  std::pair<Picoseconds, Picoseconds> bounds(std::size_t bin) const;

 private:
  std::optional<SpanKind> kind_;
  Interval range_;
  std::int64_t spans_ = -1;
  Picoseconds shortest_ = 0, longest_ = 0;
  ScanPosition at_;
  bool geometric_ = false;
  std::vector<Picoseconds> limits_;
  std::vector<std::int64_t> counts_;
};

/// Returns the limits of the bins for durations from `shortest` to `longest`.
std::vector<Picoseconds> bin_limits(Picoseconds shortest, Picoseconds longest);

/// The spans to jump to: those of a kind that overlap a range and take from `shortest` to
/// `longest`.
struct KindSearch {
  SpanKind kind;
  Interval range;
  Picoseconds shortest = 0, longest = 0;
};
/// Returns the next such span after the selected one, in order of start, rank and lane; after the
/// last one, the first. Nothing if there is none.
std::optional<Finding> next_of_kind(const Timeline& timeline, const KindSearch& search,
                                    const Finding& selected);

}  // namespace lockstep::viz
