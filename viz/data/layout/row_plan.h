#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "viz/data/layout/alike_ranks.h"
#include "viz/data/layout/mesh_places.h"

namespace lockstep::viz {

/// A filter of the timeline's rows, as typed by the user. All words must match:
///   - "5" or "rank:5": that rank; "4-7" or "rank:4-7": these ranks;
///   - "pp0" or "pp:0": the ranks with that coordinate on an axis of the mesh;
///   - any other word: a part of the rank's name or of a lane's name, in upper or lower case.
class RowFilter {
 public:
  RowFilter() = default;
  explicit RowFilter(std::string_view text);

  bool empty() const { return words_.empty(); }
  bool shows(const RankTimeline& rank, const MeshPlaces& places) const;
  /// Returns what is wrong with the filter, such as "unknown key foo; the keys are rank, pp and
  /// dp"; "" if it is valid.
  std::string trouble(const MeshPlaces& places) const;

 private:
  struct Word {
    std::string text;        ///< lower case, as typed
    std::string key{};       ///< "rank", "pp" or ""
    bool separated = false;  ///< whether a colon separates the key and the number
    std::optional<int> first{}, last{};
  };
  std::vector<Word> words_;
};

/// The user's choice of rows.
struct RowChoices {
  /// `automatic` folds identical ranks if the rows do not all fit.
  enum class Fold : std::uint8_t { automatic, on, off };

  std::set<int> pinned{}, hidden{};
  std::vector<int> order{};    ///< the ranks in the user's order; the others follow, ascending
  std::optional<Axis> axis{};  ///< by which the rows are grouped
  std::set<int> folded{};      ///< the groups that show no rows, by coordinate on that axis
  Fold fold = Fold::automatic;
  std::set<int> unfolded{};  ///< ranks whose identical ranks are shown, too
  std::string filter_text{};
  RowFilter filter{};

  /// Moves a rank to just before another one, or to the end (`before` = -1), and forgets that it
  /// is pinned.
  void move(int rank, int before, const Timeline& timeline);
};

/// A rank's row, and the identical ranks that it stands for.
struct PlannedRow {
  std::size_t rank = 0;              ///< index in the timeline
  std::vector<std::size_t> alike{};  ///< the identical ranks, also as indices
};
/// The rows with one coordinate on the axis by which rows are grouped, or all rows.
struct PlannedGroup {
  int coordinate = -1;  ///< -1 for ranks that are not on the mesh, and if rows are not grouped
  std::size_t ranks = 0;
  bool folded = false;
  std::vector<PlannedRow> rows{};  ///< of a folded group: the straggler, if it is in the group
};
struct RowPlan {
  std::vector<std::size_t> pinned{};  ///< indices in the timeline
  std::vector<PlannedGroup> groups{};
  std::size_t shown = 0;     ///< ranks that have a row or are in the row of an identical rank
  std::size_t filtered = 0;  ///< ranks that the filter leaves out
};

/// Returns for each rank, in timeline order, the group within which it may be folded; -1 if it may
/// not: because it is the straggler, pinned or hidden, does not pass the filter, or was unfolded.
std::vector<int> foldable_groups(const Timeline& timeline, const MeshPlaces& places,
                                 const RowChoices& choices, int straggler);

/// Plans the rows. `leaders` are those of AlikeRanks, or null to fold no ranks. A row stands for
/// another rank only if it is the row of that rank's leader, and both may be folded.
RowPlan plan_rows(const Timeline& timeline, const MeshPlaces& places, const RowChoices& choices,
                  const std::vector<std::size_t>* leaders, int straggler);

}  // namespace lockstep::viz
