#include "viz/read/timeline/step_account.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "viz/read/timeline/step_pieces.h"
#include "viz/read/timeline/visit_band.h"

namespace lockstep {

namespace {

/// Returns the rank's step span. If the trace has none, returns the time from the rank's first
/// start to its last end: on its compute lane or, in a trace from another tool, on any lane.
std::optional<Interval> time_of(const Timeline& timeline, const RankTimeline& rank,
                                const StepWindow& window) {
  std::optional<Interval> span_of_step, work;
  if (const Lane* compute = rank.compute())
    for (const Band band : {Band::step, Band::action, Band::kernel})
      visit_band(*compute, band, {window.start, window.end}, [&](const TimelineSpan& span) {
        if (span.step != window.step) return;
        const Interval time{span.start, span.end};
        if (span.category == Category::step && !span_of_step) span_of_step = time;
        work = work ? Interval{std::min(work->start, time.start), std::max(work->end, time.end)}
                    : time;
      });
  if (span_of_step) return span_of_step;
  return work && !timeline.run().clock.empty() ? work : step_of_rank(timeline, rank, window.step);
}

/// Sorts the account's axes, and all that is parallel to them.
void sort_axes(StepAccount& account) {
  std::vector<std::string> sorted = sorted_axes(account.axes, account.sum());
  std::vector<std::size_t> place;
  for (const std::string& axis : account.axes)
    place.push_back(static_cast<std::size_t>(std::ranges::find(sorted, axis) - sorted.begin()));
  for (RankAccount& rank : account.ranks) {
    const std::vector<Exposed> exposed = rank.sums.axes;
    const std::vector<Overlap> overlaps = rank.overlaps;
    for (std::size_t axis = 0; axis < place.size(); ++axis) {
      rank.sums.axes[place[axis]] = exposed[axis];
      rank.overlaps[place[axis]] = overlaps[axis];
    }
    for (StepPiece& piece : rank.pieces)
      if (piece.axis >= 0)
        piece.axis = static_cast<int>(place[static_cast<std::size_t>(piece.axis)]);
  }
  account.axes = std::move(sorted);
}

}  // namespace

const char* name_of(StepPart part) {
  constexpr const char* names[] = {"compute",   "optimizer", "transfer", "latency", "late peer",
                                   "cool-down", "warm-up",   "waiting",  "other"};
  static_assert(std::size(names) == step_part_count);
  return names[static_cast<std::size_t>(part)];
}

Exposed& Exposed::operator+=(const Exposed& other) {
  transfer = plus(transfer, other.transfer);
  latency = plus(latency, other.latency);
  late_peer = plus(late_peer, other.late_peer);
  return *this;
}

Exposed StepSums::exposed() const {
  Exposed all;
  for (const Exposed& axis : axes) all += axis;
  return all;
}

Picoseconds StepSums::total() const {
  Picoseconds sum = exposed().sum();
  for (const Picoseconds part : {compute, optimizer, cool_down, warm_up, waiting, other, ended})
    sum = plus(sum, part);
  return sum;
}

void StepSums::add(const StepPiece& piece) {
  const auto part = [&]() -> Picoseconds& {
    switch (piece.part) {
      case StepPart::compute:
        return compute;
      case StepPart::optimizer:
        return optimizer;
      case StepPart::transfer:
        return axes[static_cast<std::size_t>(piece.axis)].transfer;
      case StepPart::latency:
        return axes[static_cast<std::size_t>(piece.axis)].latency;
      case StepPart::late_peer:
        return axes[static_cast<std::size_t>(piece.axis)].late_peer;
      case StepPart::cool_down:
        return cool_down;
      case StepPart::warm_up:
        return warm_up;
      case StepPart::waiting:
        return waiting;
      case StepPart::other:
        break;
    }
    return other;
  };
  Picoseconds& sum = part();
  sum = plus(sum, piece.time.end - piece.time.start);
}

StepSums& StepSums::operator+=(const StepSums& more) {
  axes.resize(std::max(axes.size(), more.axes.size()));
  for (std::size_t i = 0; i < more.axes.size(); ++i) axes[i] += more.axes[i];
  for (Picoseconds StepSums::*part :
       {&StepSums::compute, &StepSums::optimizer, &StepSums::cool_down, &StepSums::warm_up,
        &StepSums::waiting, &StepSums::other, &StepSums::ended})
    this->*part = plus(this->*part, more.*part);
  return *this;
}

const RankAccount* StepAccount::find(int rank) const {
  const auto at = std::ranges::lower_bound(ranks, rank, {}, &RankAccount::rank);
  return at != ranks.end() && at->rank == rank ? &*at : nullptr;
}

StepSums StepAccount::sum() const {
  StepSums all{.axes = std::vector<Exposed>(axes.size())};
  for (const RankAccount& rank : ranks) all += rank.sums;
  return all;
}

Overlap StepAccount::overlap(std::size_t axis) const {
  Overlap all;
  for (const RankAccount& rank : ranks) {
    all.communication = plus(all.communication, rank.overlaps[axis].communication);
    all.hidden = plus(all.hidden, rank.overlaps[axis].hidden);
  }
  return all;
}

StepAccount step_account(const Timeline& timeline, int step) {
  StepAccount account{.step = step};
  const StepWindow* window = timeline.find_step(step);
  if (!window) return account;
  const bool of_others = timeline.run().clock.empty();
  std::vector<std::map<int, LaneTraffic>> traffic(timeline.ranks().size());
  if (!of_others) traffic = lane_traffic(timeline, {window->start, window->end});
  PipelineActions all;
  std::vector<PipelineActions> own(timeline.ranks().size());
  for (std::size_t i = 0; i < own.size(); ++i)
    for (const Interval& time : pipeline_actions(timeline, *timeline.ranks()[i], step)) {
      own[i].add(time);
      all.add(time);
    }
  const StepGraph graph{timeline, step};
  std::map<std::string, int> axes;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const RankTimeline& rank = *timeline.ranks()[i];
    const std::optional<Interval> time = time_of(timeline, rank, *window);
    if (!time) continue;
    account.ranks.push_back(
        divide_step({timeline, rank, *window, *time, traffic[i], all, own[i], graph}, axes));
    account.length = std::max(account.length, time->end - time->start);
  }
  account.axes.resize(axes.size());
  for (const auto& [name, index] : axes) account.axes[static_cast<std::size_t>(index)] = name;
  for (RankAccount& rank : account.ranks) {
    rank.sums.axes.resize(axes.size());
    rank.overlaps.resize(axes.size());
    for (const StepPiece& piece : rank.pieces) rank.sums.add(piece);
    const Interval after{rank.time.end, rank.time.start + account.length};
    const Picoseconds drained =
        all.any() ? std::clamp(all.last_end, after.start, after.end) - after.start : 0;
    rank.sums.cool_down = plus(rank.sums.cool_down, drained);
    rank.sums.ended = after.end - after.start - drained;
  }
  sort_axes(account);
  return account;
}

std::vector<std::string> sorted_axes(const std::vector<std::string>& axes, const StepSums& sum) {
  std::vector<std::size_t> order(axes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    const Picoseconds in_a = sum.axes[a].sum(), in_b = sum.axes[b].sum();
    return in_a != in_b ? in_a > in_b : axes[a] < axes[b];
  });
  std::vector<std::string> sorted;
  for (const std::size_t each : order) sorted.push_back(axes[each]);
  return sorted;
}

StepSums sums_within(const StepAccount& account, const RankAccount& rank, const Interval& range) {
  StepSums sums{.axes = std::vector<Exposed>(account.axes.size())};
  auto at = std::ranges::upper_bound(rank.pieces, range.start, {},
                                     [](const StepPiece& piece) { return piece.time.end; });
  for (; at != rank.pieces.end() && at->time.start < range.end; ++at) {
    StepPiece piece = *at;
    piece.time = {std::max(piece.time.start, range.start), std::min(piece.time.end, range.end)};
    sums.add(piece);
  }
  return sums;
}

}  // namespace lockstep
