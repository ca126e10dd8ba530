#include "viz/data/layout/alike_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep::viz {
namespace {

constexpr std::size_t most_classes = 64;  // with the same figures; the remaining ranks stay alone
constexpr std::size_t spans_per_look = 4096;  // between two checks of the clock
constexpr Band compared_bands[] = {Band::action, Band::kernel};

}  // namespace

double next_tolerance(double tolerance) {
  for (const double each : tolerances)
    if (each > tolerance) return each;
  return tolerances.front();
}

std::string likeness_words(const Likeness& likeness) {
  return fmt::format(
      "the same spans in the same order; durations within {:.3g} % (or {:.3g} % of the step), "
      "starts within {:.3g} % of the step",
      100 * likeness.duration, 100 * likeness.of_step(), 100 * likeness.start());
}

RankComparison::RankComparison(const Timeline& timeline, std::size_t a, std::size_t b,
                               const Likeness& likeness)
    : timeline_(timeline),
      a_(*timeline.ranks()[a]),
      b_(*timeline.ranks()[b]),
      likeness_(likeness),
      mean_step_((static_cast<double>(timeline.end()) - static_cast<double>(timeline.start())) /
                 static_cast<double>(std::max<std::size_t>(timeline.steps().size(), 1))) {}

bool RankComparison::alike(const TimelineSpan& a, const TimelineSpan& b) {
  if (a.name != b.name || a.category != b.category || a.step != b.step) return false;
  if (!knows_step_ || a.step != step_) {
    const StepWindow* step = timeline_.find_step(a.step);
    const double length =
        step ? static_cast<double>(step->end) - static_cast<double>(step->start) : mean_step_;
    knows_step_ = true;
    step_ = a.step;
    least_duration_ = likeness_.of_step() * length;
    most_start_ = likeness_.start() * length;
  }
  const auto of_a = static_cast<double>(a.duration()), of_b = static_cast<double>(b.duration());
  const double most = std::max(likeness_.duration * std::max(of_a, of_b), least_duration_);
  return std::abs(of_a - of_b) <= most &&
         std::abs(static_cast<double>(a.start) - static_cast<double>(b.start)) <= most_start_;
}

RankComparison::Result RankComparison::row(const SpanRow& a, const SpanRow& b,
                                           std::chrono::steady_clock::time_point until) {
  if (a.size() != b.size()) return Result::different;
  while (span_ < a.size()) {
    const std::size_t end = std::min(a.size(), span_ + spans_per_look);
    for (; span_ < end; ++span_)
      if (!alike(a[span_], b[span_])) return Result::different;
    if (span_ < a.size() && std::chrono::steady_clock::now() >= until) return Result::unknown;
  }
  return Result::alike;
}

RankComparison::Result RankComparison::advance(std::chrono::steady_clock::time_point until) {
  if (a_.lanes.size() != b_.lanes.size()) return Result::different;
  for (; lane_ < a_.lanes.size(); ++lane_, band_ = 0) {
    for (; band_ < std::size(compared_bands); ++band_, row_ = 0) {
      const auto& a = a_.lanes[lane_]->rows(compared_bands[band_]);
      const auto& b = b_.lanes[lane_]->rows(compared_bands[band_]);
      if (a.size() != b.size()) return Result::different;
      for (; row_ < a.size(); ++row_, span_ = 0) {
        const Result found = row(a[row_], b[row_], until);
        if (found != Result::alike) return found;
      }
    }
    if (lane_ % 64 == 63 && std::chrono::steady_clock::now() >= until) {
      ++lane_;
      band_ = 0;
      return Result::unknown;
    }
  }
  return Result::alike;
}

AlikeRanks::Figures AlikeRanks::figures_of(const RankTimeline& rank, int group) {
  Figures figures{rank.spans, static_cast<std::int64_t>(rank.lanes.size()), -1, group};
  for (const auto& lane : rank.lanes)
    for (const Band band : compared_bands)
      if (figures[2] < 0 && !lane->rows(band).empty())
        figures[2] = lane->rows(band).front().front().name;
  return figures;
}

void AlikeRanks::begin(const Timeline& timeline, const Likeness& likeness,
                       const std::vector<int>& groups) {
  begun_ = true;
  spans_ = timeline.span_count();
  comparing_ = likeness;
  groups_ = groups;
  found_.resize(timeline.ranks().size());
  for (std::size_t i = 0; i < found_.size(); ++i) found_[i] = i;
  classes_.clear();
  comparison_.clear();
  next_ = tried_ = 0;
}

void AlikeRanks::update(const Timeline& timeline, const Likeness& likeness,
                        const std::vector<int>& groups, std::chrono::microseconds budget) {
  const auto until = std::chrono::steady_clock::now() + budget;
  const std::size_t ranks = timeline.ranks().size();
  const bool stale = complete() && spans_ != timeline.span_count();
  if (!begun_ || stale || comparing_ != likeness || groups_ != groups)
    begin(timeline, likeness, groups);
  if (leaders_.size() != ranks) {
    leaders_ = found_;
    ++version_;
  }
  if (complete()) return;
  for (std::size_t looked_at = 1; next_ < ranks; ++looked_at) {
    const auto settle = [&](std::size_t leader) {
      found_[next_++] = leader;
      tried_ = 0;
    };
    if (groups_[next_] < 0) {
      settle(next_);
      continue;
    }
    std::vector<std::size_t>& classes =
        classes_[figures_of(*timeline.ranks()[next_], groups_[next_])];
    if (tried_ == classes.size()) {
      if (classes.size() < most_classes) classes.push_back(next_);
      settle(next_);
    } else {
      if (comparison_.empty()) comparison_.emplace_back(timeline, classes[tried_], next_, likeness);
      const auto result = comparison_.front().advance(until);
      if (result == RankComparison::Result::unknown) return;
      comparison_.clear();
      if (result == RankComparison::Result::different)
        ++tried_;
      else
        settle(classes[tried_]);
    }
    if (looked_at % 16 == 0 && std::chrono::steady_clock::now() >= until) break;
  }
  if (!complete()) return;
  leaders_ = found_;
  likeness_ = comparing_;
  ++version_;
}

}  // namespace lockstep::viz
