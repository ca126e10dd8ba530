#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "viz/data/selection/finding.h"
#include "viz/data/step/words.h"

namespace lockstep::viz {

/// A search for spans of one timeline, as typed by the user. All words must match:
///   - "F3", "B0", "W12": the pipeline action of that kind and microbatch;
///   - "rank:1", "step:2", "stage:0", "microbatch:5", "layer:4", "peer:3": that number;
///   - any other word: a part of the span's name, its category or its process group's name,
///     in upper or lower case. "nccl:all_reduce" is such a word, too.
class SpanSearch {
 public:
  SpanSearch() = default;
  explicit SpanSearch(std::string_view query);

  bool empty() const { return words_.empty(); }
  /// Returns what is wrong with the search: "unknown key foo; the keys are rank, step...", or "rank
  /// needs a number, such as rank:0"; "" if it is valid. A word with a colon counts as a name, and
  /// is valid, if a name in the timeline contains it.
  std::string trouble(const Timeline& timeline) const;
  bool matches(const Timeline& timeline, int rank, const TimelineSpan& span) const;
  /// The number of spans that match, in the action and kernel bands of all lanes, and how far they
  /// have been counted.
  struct Count {
    std::int64_t found = 0;
    bool complete = false;
    std::size_t rank = 0, lane = 0, band = 0, row = 0, span = 0;  ///< the next one to look at
  };
  /// Continues to count for about `budget`. If spans arrive meanwhile, some may be missed.
  void count(const Timeline& timeline, Count& count, std::chrono::microseconds budget) const;
  /// Returns the first matching span that starts after `time` (`by` = 1), or the last one that
  /// starts before it (`by` = -1); of several, the one on the lowest rank.
  std::optional<Finding> next(const Timeline& timeline, Picoseconds time, int by) const;

 private:
  enum class Kind : std::uint8_t { text, label, rank, step, stage, microbatch, layer, peer };
  static const std::array<std::pair<std::string_view, Kind>, 6> fields;
  struct Word {
    Kind kind = Kind::text;
    std::string text{};  ///< lower case; for a label, its letter
    int number = 0;
    /// For text: whether the names of the timeline contain it, by id. Names are few and spans are
    /// many, so each name is looked at only once.
    mutable std::vector<std::int8_t> in_names{};
  };
  static bool in_name(const Timeline& timeline, const Word& word, NameId name);
  std::vector<Word> words_;
};

/// Returns the span before (`by` = -1) or after (1) `time` on a lane: in the outermost row of its
/// band, the last span that ends at or before `time`, or the first that starts at or after it.
/// Waits are skipped.
std::optional<TimelineSpan> neighbour(const Lane& lane, Band band, Picoseconds time, int by);
/// Returns the span of a lane that is closest to `time`, or nothing if the lane has none.
std::optional<TimelineSpan> nearest(const Lane& lane, Band band, Picoseconds time);

}  // namespace lockstep::viz
