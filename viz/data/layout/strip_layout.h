#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <unordered_map>
#include <vector>

#include "viz/data/layout/row_plan.h"
#include "viz/read/timeline/timeline.h"

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
  bool straggler = false;
  std::vector<std::size_t> alike{};  ///< the identical ranks that it stands for, as indices
};

/// The heading of the rows that have the same coordinate on the axis by which rows are grouped.
struct RowHeading {
  int coordinate = -1;  ///< -1: ranks that are not on the mesh
  std::size_t ranks = 0;
  bool folded = false;
  float top = 0, height = 0;
};

/// The inputs of a layout besides the timeline.
struct RowContext {
  MeshPlaces places{};
  const std::vector<std::size_t>* leaders = nullptr;  ///< of AlikeRanks; null: none are identical
  int straggler = -1;                                 ///< a rank, or -1
};

/// The vertical layout of lanes, grouped by rank. Communication strips are thinner than compute
/// strips, and all are as tall as the space allows within readable limits. Empty lanes are omitted.
/// If the strips do not all fit, identical ranks share a row, and if that is not enough, ranks are
/// collapsed to their compute strips until the user expands them. Pinned ranks come first and do
/// not scroll; the straggler is among them if the rows scroll. Hidden ranks are omitted. Heights
/// are in units of `scale` pixels.
class StripLayout {
 public:
  /// Lays out `timeline` in `available` pixels; the view scrolls if it needs more.
  void update(const Timeline& timeline, float available, float scale,
              const RowContext& context = {});

  const std::vector<Strip>& strips() const { return strips_; }
  const std::vector<RankGroup>& groups() const { return groups_; }
  const std::vector<RowHeading>& headings() const { return headings_; }
  float height() const { return height_; }
  /// Returns the height of the pinned ranks, which is 0 if there are none.
  float pinned_height() const { return pinned_height_; }
  /// Returns whether identical ranks should share a row, so that AlikeRanks is needed.
  bool folds() const { return folds_; }
  /// The number of ranks that have a row or share one, and the number that the filter leaves out.
  std::size_t shown() const { return shown_; }
  std::size_t filtered() const { return filtered_; }
  /// Returns a rank's group, or null if the rank has no row of its own.
  const RankGroup* find(int rank) const;
  /// Returns a rank's group or, if the rank shares a row, the group of the identical rank that the
  /// row shows. Null if it has no row.
  const RankGroup* find_shared(int rank) const;

  /// Returns the strip at `y`, or null.
  const Strip* strip_at(float y) const;
  const RankGroup* group_at(float y) const;
  /// Returns the y at which messages of a lane start and end: the middle of its strip, or of the
  /// rank's compute strip if the lane is collapsed. Negative if the rank is unknown.
  float anchor(int rank, int tid) const;

  /// Returns the heading at `y`, or null.
  const RowHeading* heading_at(float y) const;

  void toggle(int rank);
  /// Pins a rank to the top, or releases it.
  void pin(int rank);
  void hide(int rank) { choices_.hidden.insert(rank); }
  void show_all() { choices_.hidden.clear(); }
  /// Makes sure that a rank has a row of its own: shows it, and unfolds it and its group.
  void reveal(int rank, const MeshPlaces& places);
  /// Shows the identical ranks that a rank's row stands for, or folds them again.
  void toggle_alike(const RankGroup& group, const Timeline& timeline);
  bool is_pinned(int rank) const { return choices_.pinned.contains(rank); }
  const std::set<int>& hidden() const { return choices_.hidden; }
  /// The user's choices; changing them takes effect with the next update().
  RowChoices& choices() { return choices_; }
  const RowChoices& choices() const { return choices_; }
  /// Collapses, pins, hides, groups and orders the same ranks as another layout.
  void mirror(const StripLayout& other) {
    toggled_ = other.toggled_;
    choices_ = other.choices_;
  }
  /// Collapses all ranks, or expands them if all of them are collapsed.
  void toggle_all();

 private:
  /// A heading or a rank's group, from top to bottom.
  struct Item {
    bool heading = false;
    std::size_t index = 0;  ///< in headings_ or groups_
  };
  /// Collects the strips (for a collapsed rank, only its compute strip) and returns their total
  /// height at minimum thickness.
  float collect(const Timeline& timeline, const RowPlan& plan,
                const std::function<bool(int)>& is_collapsed, int straggler, float scale);
  void collect_rank(const Timeline& timeline, std::size_t index, bool collapsed);
  /// Gives strips, groups and headings their places.
  void place(float available, float scale);

  std::vector<Strip> strips_;
  std::vector<RankGroup> groups_;
  std::vector<RowHeading> headings_;
  std::vector<Item> items_;
  RowChoices choices_;
  std::set<int> toggled_;                          ///< ranks that the user expanded or collapsed
  std::unordered_map<int, std::size_t> group_of_;  ///< by rank
  std::unordered_map<int, std::size_t> shares_;  ///< likewise, of ranks without a row of their own
  bool folds_ = false, tight_ = false;
  std::size_t shown_ = 0, filtered_ = 0;
  float pinned_height_ = 0;
  float units_ = 0;  ///< total height in compute strips
  float gaps_ = 0;   ///< total pixels between strips, before scaling
  float height_ = 0;
};

}  // namespace lockstep::viz
