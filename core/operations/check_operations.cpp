#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "core/base/error.h"
#include "core/operations/operations_format.h"

namespace lockstep {

namespace {

using Kind = RecordedOperation::Kind;

/// The effect of a list on a rank's count of issued operations, and how far back its waits refer.
struct Reach {
  std::int64_t issued = 0;
  std::int64_t before = 0;  ///< how many operations before the list its waits reach back
};

/// Whether a collective that distinguishes nodes has blocks that allow it, and its algorithm is one
/// that a group can run.
bool nodes_fit(const Collective& collective, std::size_t members) {
  if (collective.algorithm == Algorithm::rings) return false;
  if (collective.per_node == 0) return true;
  const std::vector<std::int64_t>& counts = collective.counts;
  return members % static_cast<std::size_t>(collective.per_node) == 0 &&
         (collective.operation == Operation::all_to_all
              ? std::ranges::all_of(counts, [&](std::int64_t each) { return each == counts[0]; })
              : collective.algorithm == Algorithm::hierarchical);
}

}  // namespace

void check_operations(const RunOperations& run, const std::string& where) {
  const auto ranks = static_cast<int>(run.ranks.size());
  for (const auto& group : run.groups)
    if (std::ranges::any_of(group.ranks, [&](int rank) { return rank >= ranks; }))
      throw UsageError(fmt::format("{}: a group has a rank that does not exist", where));
  for (const auto& [rank, factor] : run.modelled.slow)
    if (rank >= ranks)
      throw UsageError(fmt::format("{}: 'slow' has a rank that does not exist", where));
  std::vector<Reach> reaches;
  for (const auto& list : run.lists) {
    Reach& reach = reaches.emplace_back();
    for (const std::uint32_t index : list) {
      const RecordedOperation& each = run.operations[index];
      if (each.is_issued()) ++reach.issued;
      if (each.kind == Kind::wait) reach.before = std::max(reach.before, each.back - reach.issued);
    }
  }
  // The distinct messages and collectives of each list, so that checking it against a rank takes
  // little time.
  std::vector<std::vector<std::uint32_t>> distinct;
  for (const auto& list : run.lists) {
    auto& issued = distinct.emplace_back();
    std::ranges::copy_if(list, std::back_inserter(issued),
                         [&](std::uint32_t index) { return run.operations[index].is_issued(); });
    std::ranges::sort(issued);
    issued.erase(std::unique(issued.begin(), issued.end()), issued.end());
    issued.shrink_to_fit();
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& [groups, sections] = run.ranks[static_cast<std::size_t>(rank)];
    for (const std::uint32_t group : groups)
      if (std::ranges::find(run.groups[group].ranks, rank) == run.groups[group].ranks.end())
        throw UsageError(fmt::format("{}: rank {} has a group of others", where, rank));
    std::int64_t issued = 0;
    std::set<std::uint32_t> checked;
    std::map<int, int> channels;  // by stream
    for (const auto& [step, list] : sections) {
      if (reaches[list].before > issued)
        throw UsageError(
            fmt::format("{}: rank {} waits for an operation that it has not issued", where, rank));
      issued += reaches[list].issued;
      if (!checked.insert(list).second) continue;
      for (const std::uint32_t index : distinct[list]) {
        const RecordedOperation& each = run.operations[index];
        if (each.kind != Kind::collective) {
          if (rank + each.peer < 0 || rank + each.peer >= ranks)
            throw UsageError(
                fmt::format("{}: rank {} has a message with rank {}; there are ranks 0 to {}",
                            where, rank, rank + each.peer, ranks - 1));
          if (channels.try_emplace(each.stream, each.channel).first->second != each.channel)
            throw UsageError(
                fmt::format("{}: stream {} of rank {} has two channels", where, each.stream, rank));
          continue;
        }
        if (each.group >= static_cast<int>(groups.size()))
          throw UsageError(fmt::format("{}: rank {} has no group {}", where, rank, each.group));
        const auto members = run.groups[groups[static_cast<std::size_t>(each.group)]].ranks.size();
        const Collective& collective = each.collective;
        const bool has_root = collective.operation == Operation::broadcast ||
                              collective.operation == Operation::gather;
        const bool fits = has_root
                              ? collective.root >= 0 && collective.root < static_cast<int>(members)
                              : collective.operation != Operation::all_to_all ||
                                    collective.counts.size() == 2 * members;
        if (!fits || !nodes_fit(collective, members))
          throw UsageError(fmt::format("{}: rank {} has {} in a group of {} that does not fit it",
                                       where, rank, name_of(collective.operation), members));
      }
    }
  }
}

}  // namespace lockstep
