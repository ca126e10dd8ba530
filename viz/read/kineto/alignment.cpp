#include "viz/read/kineto/alignment.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace lockstep::kineto {

Picoseconds ClockCorrection::apply(Picoseconds time) const {
  const double shifted = offset + drift * static_cast<double>(time);
  const double bounded = std::clamp(shifted, -1e18, 1e18);
  return std::clamp(time + static_cast<Picoseconds>(bounded), earliest_time, latest_time);
}

bool Alignment::joins_any() const {
  return std::ranges::count_if(ranks, &ClockCorrection::aligned) > 1;
}

namespace {

constexpr std::size_t least_for_drift = 8;  // samples of a pair of ranks
constexpr std::size_t most_samples = 256;   // of a pair of ranks, to fit the slope
constexpr int sweeps = 20;
constexpr double most_drift = 2e-4;  // between two hosts with quartz clocks, accurate to 100 ppm

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double length_of(const Interval& time) {
  return static_cast<double>(time.end) - static_cast<double>(time.start);
}

/// The end of one collective on two ranks.
struct Sample {
  double at = 0;      ///< on the second rank's clock
  double behind = 0;  ///< how much later it is on the first rank's clock
};

/// A line through samples, robust to outliers: the median slope and the median offset (Theil-Sen
/// estimator).
struct Line {
  double offset = 0, slope = 0;
  double spread = 0;    ///< the median distance of the samples
  double farthest = 0;  ///< the largest distance
  Interval sampled;     ///< from the first sample to the last

  double at(double time) const { return offset + slope * time; }
};

Line line_through(const std::vector<Sample>& samples, bool with_slope) {
  Line line;
  if (with_slope && samples.size() >= least_for_drift) {
    const std::size_t stride = (samples.size() + most_samples - 1) / most_samples;
    std::vector<double> slopes;
    for (std::size_t i = 0; i < samples.size(); i += stride)
      for (std::size_t j = i + stride; j < samples.size(); j += stride)
        if (const double apart = samples[j].at - samples[i].at; std::abs(apart) > 0)
          slopes.push_back((samples[j].behind - samples[i].behind) / apart);
    if (!slopes.empty()) line.slope = median(std::move(slopes));
  }
  std::vector<double> offsets, distances;
  for (const Sample& each : samples) offsets.push_back(each.behind - line.slope * each.at);
  line.offset = median(std::move(offsets));
  for (const Sample& each : samples) distances.push_back(std::abs(each.behind - line.at(each.at)));
  line.farthest = *std::ranges::max_element(distances);
  line.spread = median(std::move(distances));
  const auto [first, last] = std::ranges::minmax(samples, {}, &Sample::at);
  line.sampled = {std::llround(first.at), std::llround(last.at)};
  return line;
}

/// Returns a line with a drift only if the drift moves the ends by more than they scatter.
Line best_line(const std::vector<Sample>& samples) {
  const Line flat = line_through(samples, false), sloped = line_through(samples, true);
  const double drifted = std::abs(sloped.slope) * length_of(sloped.sampled);
  return drifted > 2 * sloped.spread && sloped.spread < flat.spread ? sloped : flat;
}

class Aligner {
 public:
  Aligner(const std::vector<RankCalls>& ranks, const std::vector<Match>& matches) : ranks_(ranks) {
    for (const Match& match : matches)
      if (match.ends_together)
        (match.kind == CallKind::send ? messages_ : matches_).push_back(&match);
  }

  Alignment align() {
    result_.ranks.resize(ranks_.size());
    result_.collectives = matches_.size();
    islands_.resize(ranks_.size());
    unknown_.resize(ranks_.size());
    std::iota(islands_.begin(), islands_.end(), std::size_t{0});
    join(matches_);
    // The stages of a pipeline may have only messages in common. These join ranks that collectives
    // do not.
    std::erase_if(messages_, [&](const Match* match) {
      return islands_[match->members[0].rank] == islands_[match->members[1].rank];
    });
    if (!messages_.empty()) join(messages_);
    result_.messages = messages_.size();
    matches_.insert(matches_.end(), messages_.begin(), messages_.end());
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      result_.ranks[i].aligned = islands_[i] == islands_.front();
    for (int i = 0; i < sweeps; ++i) sweep();
    measure();
    return std::move(result_);
  }

 private:
  double end_of(const Match::Member& member) const {
    return static_cast<double>(ranks_[member.rank].calls[member.call].time.end);
  }
  double corrected_end(const Match::Member& member) const {
    const ClockCorrection& clock = result_.ranks[member.rank];
    const double end = end_of(member);
    return end + clock.offset + clock.drift * end;
  }

  /// Returns the time from the first to the last of a rank's steps and calls.
  Interval extent_of(std::size_t rank) const {
    Interval extent{latest_time, earliest_time};
    const auto include = [&](const Interval& time) {
      extent.start = std::min(extent.start, time.start);
      extent.end = std::max(extent.end, time.end);
    };
    for (const Step& step : ranks_[rank].steps) include(step.time);
    for (const Call& call : ranks_[rank].calls) include(call.time);
    return extent;
  }

  /// Returns how wrong a line may be anywhere in a rank's trace: by the scatter of the samples and,
  /// at times outside the samples, also by the uncertainty of the slope. Few samples understate the
  /// scatter, so it is enlarged.
  double uncertainty_of(const Line& line, std::size_t samples, std::size_t rank) const {
    const double scatter = line.farthest * (1 + 4 / static_cast<double>(samples));
    const Interval extent = extent_of(rank);
    const double beyond = std::max({0.0, length_of({extent.start, line.sampled.start}),
                                    length_of({line.sampled.end, extent.end})});
    const double span = length_of(line.sampled);
    const double slope = span > 0 ? 2 * scatter / span : most_drift;
    return scatter + beyond * std::min(slope, most_drift);
  }

  /// Joins islands of ranks along the pairs of ranks with the least scatter, as Kruskal's algorithm
  /// joins trees.
  void join(const std::vector<const Match*>& matches) {
    std::map<std::pair<std::size_t, std::size_t>, std::vector<Sample>> pairs;
    for (const Match* match : matches)
      for (std::size_t i = 1; i < match->members.size(); ++i) {
        const Match::Member *a = &match->members[0], *b = &match->members[i];
        if (a->rank > b->rank) std::swap(a, b);
        if (a->rank == b->rank) continue;
        pairs[{a->rank, b->rank}].push_back({end_of(*b), end_of(*a) - end_of(*b)});
      }
    struct Edge {
      std::size_t a = 0, b = 0;
      Line line;
      double uncertainty = 0;
    };
    std::vector<Edge> edges;
    for (auto& [pair, samples] : pairs) {
      const Line line = best_line(samples);
      edges.push_back(
          {pair.first, pair.second, line, uncertainty_of(line, samples.size(), pair.second)});
    }
    std::ranges::stable_sort(edges, {}, [](const Edge& edge) { return edge.line.spread; });
    for (const Edge& edge : edges) {
      if (islands_[edge.a] == islands_[edge.b]) continue;
      // When b's clock shows t, a's shows t + line(t). Then a's correction applies.
      const ClockCorrection &a = result_.ranks[edge.a], b = result_.ranks[edge.b];
      const ClockCorrection corrected{.offset = (1 + a.drift) * edge.line.offset + a.offset,
                                      .drift = (1 + a.drift) * (1 + edge.line.slope) - 1};
      // The errors of pairs are independent of each other.
      const double uncertainty = std::hypot(edge.uncertainty, unknown_[edge.a], unknown_[edge.b]);
      move_island(islands_[edge.b], islands_[edge.a], b, corrected, uncertainty);
    }
  }

  /// Merges two islands: changes all corrections of one so that a rank with correction `from` gets
  /// correction `to`. The island with the lower first rank keeps its corrections; if that is
  /// `moved`, the other island changes by the inverse.
  void move_island(std::size_t moved, std::size_t into, const ClockCorrection& from,
                   const ClockCorrection& to, double uncertainty) {
    double scale = (1 + to.drift) / (1 + from.drift);
    double offset = to.offset - scale * from.offset;
    if (moved < into) {
      std::swap(moved, into);
      scale = 1 / scale;
      offset = -offset * scale;
    }
    for (std::size_t i = 0; i < islands_.size(); ++i) {
      if (islands_[i] != moved) continue;
      ClockCorrection& clock = result_.ranks[i];
      clock.drift = scale * (1 + clock.drift) - 1;
      clock.offset = scale * clock.offset + offset;
      unknown_[i] = std::hypot(unknown_[i], uncertainty);
      islands_[i] = into;
    }
  }

  double mean_end(const Match& match) const {
    double sum = 0;
    for (const Match::Member& member : match.members) sum += corrected_end(member);
    return sum / static_cast<double>(match.members.size());
  }

  /// Shifts each rank's offset by the median distance of its ends from the mean ends of its
  /// matches.
  void sweep() {
    std::vector<std::vector<double>> late(ranks_.size());
    for (const Match* match : matches_) {
      const double mean = mean_end(*match);
      for (const Match::Member& member : match->members)
        late[member.rank].push_back(mean - corrected_end(member));
    }
    for (std::size_t rank = 0; rank < late.size(); ++rank)
      if (islands_[rank] != rank && !late[rank].empty())
        result_.ranks[rank].offset += median(std::move(late[rank]));
  }

  /// Returns the resolution of the traces' times: old versions of PyTorch round them to
  /// microseconds, later ones to nanoseconds.
  double resolution() const {
    for (const Picoseconds unit : {Picoseconds{1'000'000}, Picoseconds{1'000}})
      if (std::ranges::all_of(matches_, [&](const Match* match) {
            return std::ranges::all_of(match->members, [&](const Match::Member& member) {
              return ranks_[member.rank].calls[member.call].time.end % unit == 0;
            });
          }))
        return static_cast<double>(unit);
    return 0;
  }

  void measure() {
    std::vector<double> distances;
    double shortest = std::numeric_limits<double>::max();
    for (const Match* match : matches_) {
      double first = std::numeric_limits<double>::max(), last = -first;
      for (const Match::Member& member : match->members) {
        first = std::min(first, corrected_end(member));
        last = std::max(last, corrected_end(member));
        const Interval& time = ranks_[member.rank].calls[member.call].time;
        shortest = std::min(shortest, static_cast<double>(time.end - time.start));
      }
      distances.push_back(last - first);
    }
    if (distances.empty()) return;
    const double most = *std::ranges::max_element(distances), half = median(std::move(distances));
    double residual = std::max(most + half, matches_.size() < 3 ? shortest : 0);
    for (std::size_t rank = 0; rank < unknown_.size(); ++rank)
      if (result_.ranks[rank].aligned) residual = std::max(residual, unknown_[rank]);
    residual += resolution();
    result_.largest_spread = std::llround(std::min(most, 1e18));
    result_.median_spread = std::llround(std::min(half, 1e18));
    result_.residual = std::llround(std::min(residual, 1e18));
    double largest = 0;
    for (const Match* match : matches_)
      for (const Match::Member& member : match->members)
        largest = std::max(largest, std::abs(corrected_end(member) - end_of(member)));
    result_.corrected = largest > residual;
    if (result_.corrected) return;
    for (ClockCorrection& clock : result_.ranks) clock = {.aligned = clock.aligned};
  }

  const std::vector<RankCalls>& ranks_;
  std::vector<const Match*> matches_;   ///< collectives and, after the joins, messages_
  std::vector<const Match*> messages_;  ///< messages between islands
  std::vector<std::size_t> islands_;    ///< by rank: the lowest rank that it is joined to
  std::vector<double> unknown_;         ///< by rank: uncertainty relative to the rest of its island
  Alignment result_;
};

}  // namespace

Alignment align_clocks(const std::vector<RankCalls>& ranks, const std::vector<Match>& matches) {
  return Aligner{ranks, matches}.align();
}

}  // namespace lockstep::kineto
