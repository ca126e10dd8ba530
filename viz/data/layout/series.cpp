#include "viz/data/layout/series.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "viz/read/explain/slow.h"

namespace lockstep::viz {

std::vector<LossPoint> loss_series(const Timeline& timeline) {
  // The i-th report of each rank belongs to the i-th step.
  std::vector<LossPoint> points;
  std::vector<int> reports;
  for (const auto& rank : timeline.ranks()) {
    for (std::size_t i = 0; i < rank->losses.size(); ++i) {
      if (i == points.size()) {
        points.push_back({static_cast<int>(i), 0});
        reports.push_back(0);
      }
      if (!std::isfinite(rank->losses[i].loss)) continue;
      points[i].loss += rank->losses[i].loss;
      ++reports[i];
    }
  }
  for (std::size_t i = 0; i < points.size(); ++i) points[i].loss /= std::max(reports[i], 1);
  return points;
}

void BubbleSeries::update(const Timeline& timeline, std::chrono::milliseconds budget) {
  const auto& steps = timeline.steps();
  if (!steps.empty() && steps.front().step != std::exchange(first_step_, steps.front().step))
    count_ = 0;
  while (count_ < steps.size() && timeline.step_complete(steps[count_])) ++count_;
  until_ = Clock::now() + budget;
  computed_ = behind_ = false;
}

const BubbleSeries::Point* BubbleSeries::find(const Timeline& timeline, std::size_t index) {
  const int step = timeline.steps()[index].step;
  if (const auto found = points_.find(step); found != points_.end()) return &found->second;
  behind_ = computed_ && Clock::now() >= until_;
  if (behind_) return nullptr;
  computed_ = true;
  Point point{.step = step, .account = step_account(timeline, step)};
  for (RankAccount& rank : point.account.ranks) rank.pieces = {};  // the sums suffice
  point.straggler = straggler_of(timeline, point.account);
  point.awaited = longest_awaited(waited_for(timeline, step));
  if (const auto found = bubble(timeline, step)) {
    point.bubble = *found;
    for (const auto& rank : timeline.ranks()) {
      const auto internal = internal_bubble(timeline, step, rank->rank);
      if (!internal || internal->window <= point.internal.window) continue;
      point.internal = *internal;
      point.longest_rank = rank->rank;
    }
  }
  return &points_.emplace(step, std::move(point)).first->second;
}

std::vector<MemoryColumn> memory_columns(const RankTimeline& rank, const TimeWindow& window,
                                         std::size_t pixels) {
  std::vector<MemoryColumn> columns(pixels);
  const auto& samples = rank.memory;
  const auto at_or_before = [&](double time) {
    return std::partition_point(samples.begin(), samples.end(), [&](const MemorySample& sample) {
      return static_cast<double>(sample.at) <= time;
    });
  };
  const double step = window.width() / static_cast<double>(std::max<std::size_t>(pixels, 1));
  auto next = at_or_before(window.begin);
  for (std::size_t i = 0; i < pixels; ++i) {
    // Find the maximum of the value at the start of the column and all samples within the column.
    const MemorySample* highest = next == samples.begin() ? nullptr : &*std::prev(next);
    const double end = window.begin + step * static_cast<double>(i + 1);
    for (; next != samples.end() && static_cast<double>(next->at) < end; ++next) {
      if (!highest || next->total() > highest->total()) highest = &*next;
    }
    if (!highest) continue;
    for (std::size_t c = 0; c < highest->bytes.size(); ++c) {
      columns[i][c] = static_cast<float>(highest->bytes[c]);
    }
  }
  return columns;
}

}  // namespace lockstep::viz
