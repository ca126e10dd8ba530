#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "viz/read/flight_recorder/calls.h"
#include "viz/read/flight_recorder/job.h"

namespace lockstep::flight {

/// A process group of a job.
struct ProcessGroup {
  std::string name{}, description{};
  std::vector<int> members{};  ///< ranks, ascending
  std::vector<int> order{};    ///< ranks, by rank in the group; -1: unknown
  /// Whether no dump lists the members, so that they are the ranks that called something in it.
  bool inferred = false;
  /// The group's description, or its name if it has none, in quotes; followed by the group's ranks
  /// if other groups have the same description or name.
  std::string title{};
};

/// The process groups of a job, and the group to which each call of a rank belongs.
struct ProcessGroups {
  std::vector<ProcessGroup> all{};
  /// By position in Job::dumps and the name in the calls: the group's position in `all`.
  std::vector<std::map<std::string, int, std::less<>>> of_dump{};
  std::vector<int> ranks{};  ///< all known ranks of the run, ascending
};

/// Finds the process groups. Throws UsageError if the dumps contradict one another, because they
/// come from different runs. `calls` are those of job.dumps.
ProcessGroups groups_of(const Job& job, const std::vector<Calls>& calls);

}  // namespace lockstep::flight
