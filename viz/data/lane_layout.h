#pragma once

#include <functional>
#include <set>
#include <vector>

#include "core/trace/timeline.h"

namespace lockstep::viz {

/// What a strip of the timeline shows.
enum class StripKind : std::uint8_t { compute, kernels, communication };

/// One horizontal strip: a lane of a rank (or several of one name, made one after the other by the
/// phases of a run), or the kernels within its compute lane.
struct Strip {
  const RankTimeline* rank = nullptr;
  std::vector<const Lane*> lanes{};
  StripKind kind = StripKind::compute;
  float top = 0;  ///< from the top of the whole, unscrolled
  float height = 0;
  float bottom() const { return top + height; }
  const std::string& name() const { return lanes.front()->name(); }
};

/// A rank and its strips.
struct RankGroup {
  const RankTimeline* rank = nullptr;
  float top = 0;
  float height = 0;
  std::size_t first = 0;  ///< of its strips
  std::size_t count = 0;
  bool collapsed = false;
};

/// Where lanes lie: grouped by rank, communication thinner than compute, all as tall as the space
/// allows within readable limits. Lanes on which nothing has happened are left out, and where not
/// everything fits, ranks are collapsed to their compute until they are opened by hand. Heights are
/// in units of `scale` pixels.
class LaneLayout {
 public:
  /// Lays out `timeline` in `available` pixels; what does not fit is reached by scrolling.
  void update(const Timeline& timeline, float available, float scale);

  const std::vector<Strip>& strips() const { return strips_; }
  const std::vector<RankGroup>& groups() const { return groups_; }
  float height() const { return height_; }

  /// The strip at `y`, or null.
  const Strip* strip_at(float y) const;
  const RankGroup* group_at(float y) const;
  /// Where messages of a lane start and end: the middle of its strip, or of the rank's compute
  /// strip if the lane is collapsed. Negative if the rank is not there.
  float anchor(int rank, int tid) const;

  void toggle(int rank);
  /// Collapses all ranks, or none if all are.
  void toggle_all();

 private:
  std::vector<Strip> strips_;
  std::vector<RankGroup> groups_;
  /// Collects the strips, of collapsed ranks only the compute; returns the height they take when
  /// they are as thin as they may be.
  float collect(const Timeline& timeline, const std::function<bool(int)>& is_collapsed,
                float scale);

  std::set<int> toggled_;  ///< ranks that are not as they would be by themselves
  float units_ = 0;        ///< compute strips' worth of height
  float fixed_ = 0;        ///< pixels between strips
  float height_ = 0;
};

}  // namespace lockstep::viz
