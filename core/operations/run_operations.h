#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/operations/folding.h"
#include "core/operations/recorded_operation.h"
#include "core/time/clock.h"

namespace lockstep {

/// The operations of all ranks of a run, and the clock on which the run timed them. Each distinct
/// operation is stored once, and so is each distinct list of operations: ranks that do the same,
/// and steps that repeat, share a list.
///
/// Move-only, because operations point into `names`.
struct RunOperations {
  /// A group, as each of its members creates it.
  struct GroupMembers {
    std::string name;
    int channel = 0;         ///< Transport's number; with the ranks, it identifies the group
    std::vector<int> ranks;  ///< of the whole run
    auto operator<=>(const GroupMembers&) const = default;
  };
  /// Consecutive operations of one rank: a step, or the operations before, between or after steps.
  struct Section {
    static constexpr int no_step = -1;
    int step = no_step;
    std::uint32_t list = 0;  ///< index in `lists`
    bool operator==(const Section&) const = default;
  };
  struct RankOperations {
    std::vector<std::uint32_t> groups;  ///< indices in `groups`, in the order of their creation
    std::vector<Section> sections;      ///< in order
    bool operator==(const RankOperations&) const = default;
  };

  RunOperations() = default;
  RunOperations(RunOperations&&) = default;
  RunOperations& operator=(RunOperations&&) = default;

  std::string run;     ///< its name, as in the trace
  std::string lesson;  ///< "09 1F1B"
  ModelledTime modelled;
  /// Flags whose effect depended on the run's modelled times, such as "--schedule automatic". On
  /// another cluster, the program might choose otherwise; its operations are kept.
  std::vector<std::string> choices;

  std::vector<RecordedOperation> operations;
  std::vector<std::vector<std::uint32_t>> lists;  ///< of indices in `operations`
  std::vector<GroupMembers> groups;
  std::vector<RankOperations> ranks;
  /// If ranks are folded, only representatives have operations. Such a run can be replayed, but not
  /// written to a file.
  Folding folding;

  std::set<std::string> names;  ///< to which operations point
};

}  // namespace lockstep
