#include "viz/data/window/compared_runs.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep::viz {
namespace {

constexpr double step_margin = 0.03;  // of the longer step, on both sides

}  // namespace

ComparedRuns::ComparedRuns(Model& a, std::unique_ptr<Model> b) : a_(a), b_(std::move(b)) {
  const auto pair = steps_to_compare(a_.timeline, b_->timeline);
  steps_ = {pair ? pair->a : 0, pair ? pair->b : 0};
  compare();
  show_steps();
  advance(0, true);
}

void ComparedRuns::exchange() {
  shown_ = alternates_ ? other_side(shown_) : Side::b;
  alternates_ = true;
  leads_ = shown_;
}

bool ComparedRuns::move(Side side, int by) {
  const auto count = static_cast<std::ptrdiff_t>(model(side).timeline.steps().size());
  std::size_t& step = steps_[index(side)];
  const auto to = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(
      static_cast<std::ptrdiff_t>(step) + by, 0, std::max<std::ptrdiff_t>(count - 1, 0)));
  return std::exchange(step, to) != to;
}

void ComparedRuns::go_by_steps(Side side, int by) {
  if (move(side, by)) compare();
  show_steps();
}

void ComparedRuns::go_by_steps(int by) {
  const bool moved_a = move(Side::a, by), moved_b = move(Side::b, by);
  if (moved_a || moved_b) compare();
  show_steps();
}

void ComparedRuns::choose(Side side, int step) {
  const auto& steps = model(side).timeline.steps();
  const auto at =
      std::ranges::partition_point(steps, [&](const StepWindow& each) { return each.step < step; });
  if (steps.empty()) return;
  steps_[index(side)] = std::min(static_cast<std::size_t>(at - steps.begin()), steps.size() - 1);
  compare();
  show_steps();
}

void ComparedRuns::choose_at(Side side, double time) {
  const auto& steps = model(side).timeline.steps();
  const auto after = std::ranges::partition_point(
      steps, [&](const StepWindow& each) { return static_cast<double>(each.start) <= time; });
  if (after != steps.begin()) choose(side, std::prev(after)->step);
}

void ComparedRuns::compare() {
  std::array<int, 2> numbers{-1, -1};
  for (const Side side : both_sides) {
    const auto& steps = model(side).timeline.steps();
    if (steps.empty()) continue;
    numbers[index(side)] = steps[step(side)].step;
    metrics_[index(side)] = step_metrics(model(side).timeline, numbers[index(side)]);
    model(side).origin = origin(side);
  }
  const Timeline &a = a_.timeline, &b = b_->timeline;
  configurations_ = compare_configurations(a, numbers[0], b, numbers[1]);
  warning_ = clock_warning(a, b);
  const bool clocks = configurations_.clocks_differ;
  values_ = compare_steps(metrics_[0], metrics_[1], clocks);
  ranks_ = compare_ranks(metrics_[0], metrics_[1], clocks);
  sentences_ = comparison_sentences(metrics_[0], metrics_[1],
                                    compared_names(a, numbers[0], b, numbers[1]), clocks);
}

void ComparedRuns::show_steps() {
  const Picoseconds other = metrics(other_side(leads_)).time();
  const auto longest = static_cast<double>(std::max(
      {metrics(leads_).time(), configurations_.clocks_differ ? 0 : other, Picoseconds{1}}));
  const auto begin = static_cast<double>(origin(leads_));
  leader().viewport.go_to({begin - step_margin * longest, begin + (1 + step_margin) * longest});
}

void ComparedRuns::advance(double seconds, bool at_once) {
  Model& first = leader();
  first.playback.advance(first.timeline, first.viewport, seconds);
  first.viewport.advance(first.timeline, seconds, at_once);
  follow();
}

void ComparedRuns::follow() {
  const Side follower = other_side(leads_);
  const Model& from = leader();
  Model& to = model(follower);
  const auto theirs = static_cast<double>(origin(leads_));
  const auto mine = static_cast<double>(origin(follower));
  // Times of different clocks have no common scale, so both steps are drawn equally wide.
  const bool scaled =
      configurations_.clocks_differ && metrics(leads_).time() > 0 && metrics(follower).time() > 0;
  const double scale = scaled ? static_cast<double>(metrics(follower).time()) /
                                    static_cast<double>(metrics(leads_).time())
                              : 1;
  to.viewport.mirror(from.viewport, theirs, mine, scale);
  to.playback.mirror(from.playback, theirs, mine, scale);
  static_cast<Controls&>(to.view) = from.view;
  if (to.view.query != from.view.query) to.view.set_query(from.view.query, to.timeline);
  const auto mirrored = [&](const Interval& time) {
    const auto at = [&](Picoseconds each) {
      return static_cast<Picoseconds>(
          std::clamp(mine + scale * (static_cast<double>(each) - theirs),
                     static_cast<double>(earliest_time), static_cast<double>(latest_time)));
    };
    return Interval{at(time.start), at(time.end)};
  };
  to.view.marks.clear();
  for (const Interval& mark : from.view.marks) to.view.marks.push_back(mirrored(mark));
  // The same range of both runs. While it is being dragged, it has no statistics yet.
  if (!from.view.range) {
    to.view.range.reset();
  } else if (const Interval range = mirrored(from.view.range->range);
             !to.view.range || to.view.range->range != range ||
             to.view.range->ranks.empty() != from.view.range->ranks.empty()) {
    to.view.range = from.view.range->ranks.empty() || range.start >= range.end
                        ? RangeStatistics{.range = range}
                        : range_statistics(to.timeline, range);
  }
}

}  // namespace lockstep::viz
