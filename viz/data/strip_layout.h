#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <unordered_map>
#include <vector>

#include "core/timeline/timeline.h"

namespace lockstep::viz {

/// The contents of a timeline strip.
enum class StripKind : std::uint8_t { compute, kernels, communication };

/// One horizontal strip: a lane of a rank, or the kernels within its compute lane. Lanes with the
/// same name, created by different phases of a run, share a strip.
struct Strip {
  const RankTimeline* rank = nullptr;
  std::size_t rank_index = 0;  ///< of `rank` in the timeline
  std::vector<const Lane*> lanes{};
  StripKind kind = StripKind::compute;
  float top = 0;  ///< unscrolled, from the top of the layout
  float height = 0;
  float bottom() const { return top + height; }
  const std::string& name() const { return lanes.front()->name(); }
  bool shows(const Lane* lane) const { return std::ranges::find(lanes, lane) != lanes.end(); }
};

/// A rank and its strips.
struct RankGroup {
  const RankTimeline* rank = nullptr;
  float top = 0;
  float height = 0;
  std::size_t first = 0;  ///< index of its first strip
  std::size_t count = 0;
  bool collapsed = false;
  bool pinned = false;
};

/// The vertical layout of lanes, grouped by rank. Communication strips are thinner than compute
/// strips, and all are as tall as the space allows within readable limits. Empty lanes are omitted.
/// If the strips do not all fit, ranks are collapsed to their compute strips until the user expands
/// them. Pinned ranks come first and do not scroll; hidden ranks are omitted. Heights are in units
/// of `scale` pixels.
class StripLayout {
 public:
  /// Lays out `timeline` in `available` pixels; the view scrolls if it needs more.
  void update(const Timeline& timeline, float available, float scale);

  const std::vector<Strip>& strips() const { return strips_; }
  const std::vector<RankGroup>& groups() const { return groups_; }
  float height() const { return height_; }
  /// Returns the height of the pinned ranks, which is 0 if there are none.
  float pinned_height() const { return pinned_height_; }
  /// Returns a rank's group, or null if the rank is hidden or unknown.
  const RankGroup* find(int rank) const;

  /// Returns the strip at `y`, or null.
  const Strip* strip_at(float y) const;
  const RankGroup* group_at(float y) const;
  /// Returns the y at which messages of a lane start and end: the middle of its strip, or of the
  /// rank's compute strip if the lane is collapsed. Negative if the rank is unknown.
  float anchor(int rank, int tid) const;

  void toggle(int rank);
  /// Pins a rank to the top, or releases it.
  void pin(int rank);
  void hide(int rank) { hidden_.insert(rank); }
  void show_all() { hidden_.clear(); }
  bool is_pinned(int rank) const { return pinned_.contains(rank); }
  const std::set<int>& hidden() const { return hidden_; }
  /// Collapses, pins and hides the same ranks as another layout.
  void mirror(const StripLayout& other) {
    toggled_ = other.toggled_;
    pinned_ = other.pinned_;
    hidden_ = other.hidden_;
  }
  /// Collapses all ranks, or expands them if all of them are collapsed.
  void toggle_all();

 private:
  std::vector<Strip> strips_;
  std::vector<RankGroup> groups_;
  /// Collects the strips (for a collapsed rank, only its compute strip) and returns their total
  /// height at minimum thickness.
  float collect(const Timeline& timeline, const std::function<bool(int)>& is_collapsed,
                float scale);

  std::set<int> toggled_;  ///< ranks that the user expanded or collapsed
  std::set<int> pinned_, hidden_;
  std::unordered_map<int, std::size_t> group_of_;  ///< by rank
  float pinned_height_ = 0;
  float units_ = 0;  ///< total height in compute strips
  float fixed_ = 0;  ///< total pixels between strips
  float height_ = 0;
};

}  // namespace lockstep::viz
