#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "viz/read/timeline/timeline.h"

namespace lockstep::viz {

/// How much two ranks may differ and still count as identical. They are identical if, lane by lane,
/// they ran the same spans in the same order (the same names and categories, in the same rows), and
/// for each span
///   - the durations differ by at most `duration` times the longer one or `duration` / 50 of the
///     step, whichever is more;
///   - the starts differ by at most `duration` / 5 of the step.
/// For a span outside all steps, the step's length is the run's length divided by its number of
/// steps.
struct Likeness {
  double duration = 0.05;
  bool operator==(const Likeness&) const = default;

  double of_step() const { return duration / 50; }
  double start() const { return duration / 5; }
};
/// The tolerances that the user can choose from.
inline constexpr std::array tolerances{0.01, 0.05, 0.2, 0.5};
/// Returns the next larger tolerance; after the largest, the smallest.
double next_tolerance(double tolerance);
/// Describes a tolerance: "the same spans in the same order; durations within 5 % (or 0.1 % of the
/// step), starts within 1 % of the step".
std::string likeness_words(const Likeness& likeness);

/// Compares two ranks, in several calls if necessary.
class RankComparison {
 public:
  enum class Result { unknown, alike, different };
  RankComparison(const Timeline& timeline, std::size_t a, std::size_t b, const Likeness& likeness);
  /// Continues until it finds a difference or the time is `until`. (It examines a few thousand
  /// spans in any case.)
  Result advance(std::chrono::steady_clock::time_point until);

 private:
  Result row(const SpanRow& a, const SpanRow& b, std::chrono::steady_clock::time_point until);
  bool alike(const TimelineSpan& a, const TimelineSpan& b);

  const Timeline& timeline_;
  const RankTimeline &a_, &b_;
  Likeness likeness_;
  std::size_t lane_ = 0, band_ = 0, row_ = 0, span_ = 0;
  int step_ = -1;  ///< the step to which the two limits apply
  bool knows_step_ = false;
  double least_duration_ = 0, most_start_ = 0;  ///< picoseconds
  double mean_step_ = 0;
};

/// Finds which ranks of a timeline are identical over the whole run. Compares each rank with the
/// first rank of each class, doing a little work per frame.
class AlikeRanks {
 public:
  /// Continues for about `budget`. Starts over if the tolerance or the groups have changed or, once
  /// the comparison is complete, if spans have arrived. `groups` holds a number for each rank, in
  /// timeline order: only ranks with the same number can be identical, and a rank with -1 is
  /// identical to no other.
  void update(const Timeline& timeline, const Likeness& likeness, const std::vector<int>& groups,
              std::chrono::microseconds budget);
  void clear() { *this = {}; }
  bool complete() const { return begun_ && next_ == found_.size(); }
  bool behind() const { return begun_ && !complete(); }
  /// For each rank, in timeline order: the index of the first rank of its class, possibly the rank
  /// itself. This is the result of the last complete comparison; before the first one, each rank is
  /// in a class of its own.
  const std::vector<std::size_t>& leaders() const { return leaders_; }
  const Likeness& likeness() const { return likeness_; }  ///< the tolerance used for leaders()
  /// Changes whenever leaders() changes.
  std::int64_t version() const { return version_; }

 private:
  /// Ranks that differ in these figures cannot be identical.
  using Figures = std::array<std::int64_t, 4>;
  static Figures figures_of(const RankTimeline& rank, int group);
  void begin(const Timeline& timeline, const Likeness& likeness, const std::vector<int>& groups);

  Likeness likeness_, comparing_;
  std::int64_t spans_ = -1, version_ = 0;
  bool begun_ = false;
  std::vector<std::size_t> leaders_, found_;
  std::vector<int> groups_;
  std::map<Figures, std::vector<std::size_t>> classes_;  ///< the first rank of each
  std::size_t next_ = 0;                                 ///< the rank to classify
  std::size_t tried_ = 0;                   ///< number of classes that do not contain `next_`
  std::vector<RankComparison> comparison_;  ///< the one in progress, if any
};

}  // namespace lockstep::viz
