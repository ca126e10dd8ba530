#include "core/time/fluid.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep {

namespace {

constexpr std::int64_t picoseconds_per_second = 1'000'000'000'000;

/// Returns a bandwidth as a whole number from 1 to `most`.
std::int64_t whole(double bandwidth, std::int64_t most) {
  return bandwidth < static_cast<double>(most) ? std::max<std::int64_t>(std::llround(bandwidth), 1)
                                               : most;
}

}  // namespace

int Fluid::number_of(const SharedLinks::Resource& resource, int times) {
  const auto& [id, bandwidth] = resource;
  const auto [found, is_new] = numbers_.try_emplace(id, static_cast<int>(resources_.size()));
  if (is_new)
    resources_.push_back({.id = id, .bandwidth = whole(bandwidth, no_limit), .times = times});
  return found->second;
}

void Fluid::touch(int number) {
  if (std::exchange(resource(number).dirty, true)) return;
  dirty_.push_back(number);
}

Fluid::Flow Fluid::add(Picoseconds now, double bytes, double bandwidth, Picoseconds time_alone,
                       const Path& path) {
  if (now > now_) share();
  now_ = now;
  Flow flow = static_cast<Flow>(flows_.size());
  if (unused_.empty()) {
    flows_.emplace_back();
  } else {
    flow = unused_.back();
    unused_.pop_back();
  }
  State& added = state(flow);
  added = {.path = &path,
           .own_limit = whole(bandwidth, no_limit),
           .current = {.left = static_cast<Parts>(std::ldexp(std::min(bytes, 1e18), part_bits)),
                       .since = now},
           .begin = now,
           .time_alone = time_alone,
           .version = added.version + 1};
  for (const int number : path) {
    resource(number).flows.push_back(flow);
    touch(number);
  }
  if (path.empty()) set_rate(flow, added.own_limit);
  return flow;
}

std::optional<Picoseconds> Fluid::next() {
  share();
  while (!ends_.empty() && state(ends_.top().flow).version != ends_.top().version) ends_.pop();
  if (ends_.empty()) return {};
  return ends_.top().time;
}

void Fluid::take(std::vector<Flow>& ended) {
  const auto time = next();
  if (!time) return;
  now_ = *time;
  const std::size_t before = ended.size();
  while (!ends_.empty() && ends_.top().time == now_) {
    const End end = ends_.top();
    ends_.pop();
    State& flow = state(end.flow);
    if (flow.version != end.version) continue;
    ++flow.version;
    for (const int number : *flow.path) {
      auto& flows = resource(number).flows;
      *std::ranges::find(flows, end.flow) = flows.back();
      flows.pop_back();
      touch(number);
    }
    flow.path = nullptr;
    ended.push_back(end.flow);
  }
  unused_.insert(unused_.end(), ended.begin() + static_cast<std::ptrdiff_t>(before), ended.end());
}

void Fluid::share() {
  for (std::size_t i = 0; i < dirty_.size(); ++i)
    if (resource(dirty_[i]).dirty) share_component(dirty_[i]);
  dirty_.clear();
}

// Raises all rates together. Whenever a resource is used up, or a flow reaches the limit of its own
// link, the affected flows keep their rates, and the rates of the others continue to rise.
void Fluid::share_component(int first) {
  component_.assign(1, first);
  members_.clear();
  resource(first).seen = true;
  for (std::size_t i = 0; i < component_.size(); ++i)
    for (const Flow flow : resource(component_[i]).flows) {
      if (std::exchange(state(flow).seen, true)) continue;
      members_.push_back(flow);
      for (const int other : *state(flow).path)
        if (!std::exchange(resource(other).seen, true)) component_.push_back(other);
    }
  // Sorts the resources in an order that does not depend on which message used a resource first.
  std::ranges::sort(component_, {}, [&](int number) { return resource(number).id; });
  std::ranges::sort(members_, {}, [&](Flow flow) { return state(flow).own_limit; });
  for (const int number : component_) {
    Resource& each = resource(number);
    each.dirty = each.seen = false;
    each.left = each.bandwidth;
    each.count = static_cast<std::int64_t>(each.flows.size()) * each.times;
  }
  for (const Flow flow : members_) {
    state(flow).seen = false;
    state(flow).new_rate = 0;
  }

  std::size_t limited = 0;  // flows before this one, in order of their own limits, have rates
  while (true) {
    std::int64_t level = no_limit;  // at which the first resource is used up
    for (const int number : component_)
      if (const Resource& each = resource(number); each.count > 0)
        level = std::min(level, each.left / each.count);
    while (limited < members_.size() && state(members_[limited]).new_rate > 0) ++limited;
    if (limited == members_.size()) break;
    if (const std::int64_t own = state(members_[limited]).own_limit; own <= level) {
      for (; limited < members_.size() && state(members_[limited]).own_limit == own; ++limited)
        if (state(members_[limited]).new_rate == 0) give(members_[limited], own);
      continue;
    }
    // Determines all resources that are used up before any of their flows gets its rate.
    std::vector<int> used_up;
    for (const int number : component_)
      if (const Resource& each = resource(number);
          each.count > 0 && each.left / each.count == level)
        used_up.push_back(number);
    for (const int number : used_up)
      for (const Flow flow : resource(number).flows)
        if (state(flow).new_rate == 0) give(flow, std::max<std::int64_t>(level, 1));
  }
  for (const Flow flow : members_)
    if (state(flow).new_rate != state(flow).current.rate) set_rate(flow, state(flow).new_rate);
}

void Fluid::give(Flow flow, std::int64_t rate) {
  state(flow).new_rate = rate;
  for (const int number : *state(flow).path) {
    Resource& each = resource(number);
    each.left = std::max<std::int64_t>(each.left - rate * each.times, 0);
    each.count -= each.times;
  }
}

// A rate may change several times at one instant, while flows end and others begin. If the rate
// ends up the same as before, nothing has changed, not even by rounding.
void Fluid::set_rate(Flow flow, std::int64_t rate) {
  State& each = state(flow);
  Progress& current = each.current;
  const auto parts_per_second = [](std::int64_t bytes) {
    return static_cast<Parts>(bytes) << part_bits;
  };
  if (current.since == now_ && each.before.rate == rate) {
    current = each.before;
  } else {
    if (current.since < now_) {
      each.before = current;
      current.left -=
          parts_per_second(current.rate) * (now_ - current.since) / picoseconds_per_second;
      current.left = std::max<Parts>(current.left, 0);
      current.since = now_;
    }
    current.rate = rate;
  }
  ++each.version;
  // A flow that no resource limits takes exactly as long as on its own link.
  const bool alone = current.since == each.begin && rate == each.own_limit;
  const Parts per_second = parts_per_second(rate);
  const Parts takes = alone ? each.time_alone
                            : (current.left * picoseconds_per_second + per_second - 1) / per_second;
  const auto end = current.since + static_cast<Picoseconds>(std::min<Parts>(takes, longest));
  ends_.push({std::max(end, now_), flow, each.version});
}

}  // namespace lockstep
