#include "viz/data/strip_layout.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace lockstep::viz {
namespace {

constexpr float least_compute = 16, most_compute = 54;
constexpr float most_share = 0.11f;  // of the available height, for a compute strip
constexpr float least_communication = 6, most_communication = 14;
constexpr float kernel_share = 0.35f;  // relative to a compute strip
constexpr float strip_gap = 2;
constexpr float group_gap = 10;

bool has_spans(const Lane& lane, Band band) {
  return !lane.rows(band).empty();
}

bool is_empty(const Lane& lane) {
  return !has_spans(lane, Band::action) && !has_spans(lane, Band::kernel) && lane.open().empty();
}

}  // namespace

float StripLayout::collect(const Timeline& timeline, const std::function<bool(int)>& is_collapsed,
                           float scale) {
  strips_.clear();
  groups_.clear();
  // Heights are in units of a compute strip; sum the requested heights first.
  float units = 0, fixed = 0;
  constexpr float communication_units = most_communication / most_compute;
  group_of_.clear();
  const auto add_rank = [&](std::size_t index) {
    const auto& rank = timeline.ranks()[index];
    RankGroup group{.rank = rank.get(),
                    .first = strips_.size(),
                    .collapsed = is_collapsed(rank->rank),
                    .pinned = pinned_.contains(rank->rank)};
    std::unordered_map<std::string_view, std::size_t> by_name;  // communication strips
    const auto add = [&](const Lane& lane, StripKind kind, float height) {
      if (kind == StripKind::communication) {
        const auto [at, fresh] = by_name.try_emplace(lane.name(), strips_.size());
        if (!fresh) {
          strips_[at->second].lanes.push_back(&lane);
          return;
        }
      }
      strips_.push_back({rank.get(), index, {&lane}, kind, 0, height});
      units += height;
      fixed += strip_gap;
    };
    for (const auto& lane : rank->lanes) {
      if (lane->is_compute()) {
        add(*lane, StripKind::compute, 1);
        if (has_spans(*lane, Band::kernel) && !group.collapsed) {
          add(*lane, StripKind::kernels, kernel_share);
        }
      } else if (!group.collapsed && !is_empty(*lane)) {
        const bool communicates = has_spans(*lane, Band::action) || !has_spans(*lane, Band::kernel);
        add(*lane, communicates ? StripKind::communication : StripKind::kernels,
            communicates ? communication_units : kernel_share);
      }
    }
    group.count = strips_.size() - group.first;
    if (group.count == 0) return;
    group_of_.emplace(rank->rank, groups_.size());
    groups_.push_back(group);
    fixed += group_gap;
  };
  for (const bool pinned : {true, false}) {
    if (pinned && pinned_.empty()) continue;
    for (std::size_t i = 0; i < timeline.ranks().size(); ++i) {
      const int rank = timeline.ranks()[i]->rank;
      if (pinned_.contains(rank) == pinned && !hidden_.contains(rank)) add_rank(i);
    }
  }
  units_ = units;
  fixed *= scale;
  float least = fixed;
  for (const Strip& strip : strips_) {
    least += std::max(strip.height * least_compute, least_communication) * scale;
  }
  fixed_ = fixed;
  return least;
}

void StripLayout::update(const Timeline& timeline, float available, float scale) {
  const bool crowded = collect(
                           timeline, [](int) { return false; }, scale) > available;
  collect(
      timeline, [&](int rank) { return crowded != toggled_.contains(rank); }, scale);
  const float room = available - fixed_;
  // On a large screen, strips may grow further.
  const float most = std::max(most_compute * scale, available * most_share);
  const float unit = std::clamp(units_ > 0 ? room / units_ : 0, least_compute * scale, most);
  float y = group_gap / 2 * scale;
  pinned_height_ = 0;
  for (RankGroup& group : groups_) {
    group.top = y;
    for (std::size_t i = group.first; i < group.first + group.count; ++i) {
      Strip& strip = strips_[i];
      strip.top = y;
      strip.height = std::max(strip.height * unit, least_communication * scale);
      y = strip.bottom() + strip_gap * scale;
    }
    group.height = y - strip_gap * scale - group.top;
    y += group_gap * scale;
    if (group.pinned) pinned_height_ = y - group_gap / 2 * scale;
  }
  height_ = y - group_gap / 2 * scale;
}

const Strip* StripLayout::strip_at(float y) const {
  auto after = std::partition_point(strips_.begin(), strips_.end(),
                                    [&](const Strip& strip) { return strip.bottom() <= y; });
  return after != strips_.end() && after->top <= y ? &*after : nullptr;
}

const RankGroup* StripLayout::group_at(float y) const {
  for (const RankGroup& group : groups_) {
    if (y >= group.top && y < group.top + group.height) return &group;
  }
  return nullptr;
}

float StripLayout::anchor(int rank, int tid) const {
  const RankGroup* group = find(rank);
  if (!group) return -1;
  const Strip* found = &strips_[group->first];
  for (std::size_t i = group->first; i < group->first + group->count; ++i) {
    for (const Lane* lane : strips_[i].lanes) {
      if (lane->tid() == tid && strips_[i].kind != StripKind::kernels) found = &strips_[i];
    }
  }
  return found->top + found->height / 2;
}

const RankGroup* StripLayout::find(int rank) const {
  const auto found = group_of_.find(rank);
  return found != group_of_.end() ? &groups_[found->second] : nullptr;
}

void StripLayout::pin(int rank) {
  if (!pinned_.insert(rank).second) pinned_.erase(rank);
}

void StripLayout::toggle(int rank) {
  if (!toggled_.insert(rank).second) toggled_.erase(rank);
}

void StripLayout::toggle_all() {
  const bool all = std::all_of(groups_.begin(), groups_.end(),
                               [](const RankGroup& group) { return group.collapsed; });
  for (const RankGroup& group : groups_) {
    if (group.collapsed == all) toggle(group.rank->rank);
  }
}

}  // namespace lockstep::viz
