#include "viz/data/layout/strip_layout.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace lockstep::viz {
namespace {

constexpr float least_compute = 16, most_compute = 54;
constexpr float most_share =
    0.11f;  // fraction of the available height that a compute strip may take
constexpr float least_communication = 6, most_communication = 14;
constexpr float kernel_share = 0.35f;  // relative to the height of a compute strip
constexpr float strip_gap = 2;
constexpr float group_gap = 10, tight_gap = 4;  // between groups; tight_gap if the rows scroll
constexpr float heading_height = 18;

bool has_spans(const Lane& lane, Band band) {
  return !lane.rows(band).empty();
}

bool is_empty(const Lane& lane) {
  return !has_spans(lane, Band::action) && !has_spans(lane, Band::kernel) && lane.open().empty();
}

}  // namespace

void StripLayout::collect_rank(const Timeline& timeline, std::size_t index, bool collapsed) {
  constexpr float communication_units = most_communication / most_compute;
  const auto& rank = timeline.ranks()[index];
  RankGroup group{.rank = rank.get(), .first = strips_.size(), .collapsed = collapsed};
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
    units_ += height;
    gaps_ += strip_gap;
  };
  for (const auto& lane : rank->lanes) {
    if (lane->is_compute()) {
      add(*lane, StripKind::compute, 1);
      if (has_spans(*lane, Band::kernel) && !group.collapsed)
        add(*lane, StripKind::kernels, kernel_share);
    } else if (!group.collapsed && !is_empty(*lane)) {
      const bool communicates = has_spans(*lane, Band::action) || !has_spans(*lane, Band::kernel);
      add(*lane, communicates ? StripKind::communication : StripKind::kernels,
          communicates ? communication_units : kernel_share);
    }
  }
  group.count = strips_.size() - group.first;
  if (group.count == 0) return;
  group_of_.emplace(rank->rank, groups_.size());
  items_.push_back({.heading = false, .index = groups_.size()});
  groups_.push_back(std::move(group));
  gaps_ += tight_ ? tight_gap : group_gap;
}

float StripLayout::collect(const Timeline& timeline, const RowPlan& plan,
                           const std::function<bool(int)>& is_collapsed, int straggler,
                           float scale) {
  strips_.clear();
  groups_.clear();
  headings_.clear();
  items_.clear();
  group_of_.clear();
  shares_.clear();
  units_ = gaps_ = 0;
  const auto add = [&](std::size_t index, bool pinned, const std::vector<std::size_t>& alike) {
    const int rank = timeline.ranks()[index]->rank;
    const std::size_t before = groups_.size();
    collect_rank(timeline, index, is_collapsed(rank));
    if (groups_.size() == before) return;
    groups_.back().pinned = pinned;
    groups_.back().straggler = rank == straggler;
    groups_.back().alike = alike;
    for (const std::size_t other : alike)
      shares_.emplace(timeline.ranks()[other]->rank, groups_.size() - 1);
  };
  for (const std::size_t index : plan.pinned) add(index, true, {});
  for (const PlannedGroup& planned : plan.groups) {
    if (choices_.axis) {
      items_.push_back({.heading = true, .index = headings_.size()});
      headings_.push_back({.coordinate = planned.coordinate,
                           .ranks = planned.ranks,
                           .folded = planned.folded,
                           .height = heading_height * scale});
      gaps_ += heading_height + strip_gap;
    }
    for (const PlannedRow& row : planned.rows) add(row.rank, false, row.alike);
  }
  shown_ = plan.shown;
  filtered_ = plan.filtered;
  float least = gaps_ * scale;
  for (const Strip& strip : strips_)
    least += std::max(strip.height * least_compute, least_communication) * scale;
  return least;
}

void StripLayout::update(const Timeline& timeline, float available, float scale,
                         const RowContext& context) {
  using Fold = RowChoices::Fold;
  const int straggler = context.straggler;
  const auto plan = [&](bool folds) {
    return plan_rows(timeline, context.places, choices_, folds ? context.leaders : nullptr,
                     straggler);
  };
  const auto fits = [&](const RowPlan& rows, const std::function<bool(int)>& is_collapsed) {
    return collect(timeline, rows, is_collapsed, straggler, scale) <= available;
  };
  const auto expanded = [](int) { return false; };
  const auto collapsed = [](int) { return true; };
  RowPlan rows = plan(choices_.fold == Fold::on);
  folds_ = choices_.fold == Fold::on;
  tight_ = false;
  bool crowded = !fits(rows, expanded);
  if (crowded && choices_.fold == Fold::automatic && !fits(rows, collapsed)) {
    folds_ = true;
    rows = plan(true);
    crowded = !fits(rows, expanded);
  }
  const auto is_collapsed = [&](int rank) { return crowded != toggled_.contains(rank); };
  if (!fits(rows, is_collapsed)) {
    // The rows scroll. The straggler stays where the user sees it.
    tight_ = true;
    for (PlannedGroup& group : rows.groups)
      for (const PlannedRow& row : group.rows)
        if (timeline.ranks()[row.rank]->rank == straggler) rows.pinned.push_back(row.rank);
    for (PlannedGroup& group : rows.groups)
      std::erase_if(group.rows, [&](const PlannedRow& row) {
        return timeline.ranks()[row.rank]->rank == straggler;
      });
    collect(timeline, rows, is_collapsed, straggler, scale);
  }
  place(available, scale);
}

void StripLayout::place(float available, float scale) {
  const float room = available - gaps_ * scale;
  // On a large screen, strips may grow further.
  const float most = std::max(most_compute * scale, available * most_share);
  const float unit = std::clamp(units_ > 0 ? room / units_ : 0, least_compute * scale, most);
  const float gap = (tight_ ? tight_gap : group_gap) * scale;
  float y = gap / 2;
  pinned_height_ = 0;
  for (const Item& item : items_) {
    if (item.heading) {
      headings_[item.index].top = y;
      y += (heading_height + strip_gap) * scale;
      continue;
    }
    RankGroup& group = groups_[item.index];
    group.top = y;
    for (std::size_t i = group.first; i < group.first + group.count; ++i) {
      Strip& strip = strips_[i];
      strip.top = y;
      strip.height = std::max(strip.height * unit, least_communication * scale);
      y = strip.bottom() + strip_gap * scale;
    }
    group.height = y - strip_gap * scale - group.top;
    y += gap;
    if (group.pinned) pinned_height_ = y - gap / 2;
  }
  height_ = y - gap / 2;
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

const RankGroup* StripLayout::find_shared(int rank) const {
  if (const RankGroup* group = find(rank)) return group;
  const auto found = shares_.find(rank);
  return found != shares_.end() ? &groups_[found->second] : nullptr;
}

const RowHeading* StripLayout::heading_at(float y) const {
  for (const RowHeading& heading : headings_)
    if (y >= heading.top && y < heading.top + heading.height) return &heading;
  return nullptr;
}

void StripLayout::pin(int rank) {
  if (!choices_.pinned.insert(rank).second) choices_.pinned.erase(rank);
}

void StripLayout::reveal(int rank, const MeshPlaces& places) {
  choices_.hidden.erase(rank);
  if (group_of_.contains(rank)) return;
  if (choices_.axis) choices_.folded.erase(places.coordinate(rank, *choices_.axis));
  choices_.unfolded.insert(rank);
  choices_.filter = {};
  choices_.filter_text.clear();
}

void StripLayout::toggle_alike(const RankGroup& group, const Timeline& timeline) {
  if (group.alike.empty()) {
    choices_.unfolded.clear();
    return;
  }
  choices_.unfolded.insert(group.rank->rank);
  for (const std::size_t index : group.alike)
    choices_.unfolded.insert(timeline.ranks()[index]->rank);
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
