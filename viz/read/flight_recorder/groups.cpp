#include "viz/read/flight_recorder/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "viz/read/flight_recorder/rank_list.h"

namespace lockstep::flight {
namespace {

/// The members of a group, as one or more dumps list them.
struct Listed {
  std::vector<int> members;  ///< ascending
  std::string description;
  int of_rank = 0;    ///< a rank whose dump contains the list
  bool valid = true;  ///< whether every rank that calls something in the group is a member
};

using Lists = std::map<std::vector<int>, Listed>;  ///< by order in the group

class Finder {
 public:
  Finder(const Job& job, const std::vector<Calls>& calls) : job_(job), calls_(calls) {}

  ProcessGroups find() {
    for (std::size_t i = 0; i < calls_.size(); ++i)
      for (const Call& call : calls_[i].all) {
        Users& users = users_[call.group];
        if (users.dumps.empty() || users.dumps.back() != i) users.dumps.push_back(i);
        if (users.description.empty()) users.description = call.description;
      }
    for (const RankDump& dump : job_.dumps)
      for (const GroupConfig& group : dump.dump.groups) list(group, dump.rank);
    for (auto& [name, lists] : lists_) check(name, lists);
    collect_ranks();
    found_.of_dump.resize(job_.dumps.size());
    for (const auto& [name, lists] : lists_)
      for (const auto& [order, each] : lists)
        if (each.valid) add(name, order, each);
    for (const auto& [name, users] : users_) infer(name, users);
    set_titles();
    return std::move(found_);
  }

 private:
  /// The dumps with calls in a group, ascending.
  struct Users {
    std::vector<std::size_t> dumps;
    std::string_view description;
  };

  void list(const GroupConfig& group, int rank) {
    // Some versions of torch list gloo's groups without names, and with ranks in the group.
    if (group.name.empty() || group.ranks.empty()) return;
    auto& lists = lists_[group.name];
    if (lists.contains(group.ranks)) return;
    Listed listed{.members = group.ranks, .description = group.description, .of_rank = rank};
    std::ranges::sort(listed.members);
    lists.emplace(group.ranks, std::move(listed));
  }

  /// Invalidates the lists of one name that can't be right: lists that repeat a member, and all of
  /// them if a rank that calls something in the group is in none. Throws if valid lists overlap
  /// without being equal.
  void check(const std::string& name, Lists& lists) const {
    std::set<int> members;
    for (auto& [order, each] : lists) {
      members.insert(each.members.begin(), each.members.end());
      each.valid = std::ranges::adjacent_find(each.members) == each.members.end();
    }
    if (const auto users = users_.find(name); users != users_.end())
      for (const std::size_t dump : users->second.dumps)
        if (!members.contains(job_.dumps[dump].rank))
          for (auto& [order, each] : lists) each.valid = false;
    check_overlap(name, lists);
  }

  static void check_overlap(const std::string& name, const Lists& lists) {
    std::map<int, const Listed*> owner;
    for (const auto& [order, each] : lists) {
      if (!each.valid) continue;
      for (const int member : each.members) {
        const auto [other, is_new] = owner.emplace(member, &each);
        if (is_new || other->second->members == each.members) continue;
        throw UsageError(fmt::format(
            "process group '{}' has {} according to the dump of rank {}, but {} according to that "
            "of rank {}: these are dumps of different runs; give those of one run",
            excerpt(name, 40), rank_words(other->second->members, 4), other->second->of_rank,
            rank_words(each.members, 4), each.of_rank));
      }
    }
  }

  void collect_ranks() {
    std::set<int> ranks;
    for (const RankDump& dump : job_.dumps) ranks.insert(dump.rank);
    for (const auto& [name, lists] : lists_)
      for (const auto& [order, each] : lists)
        if (each.valid) ranks.insert(each.members.begin(), each.members.end());
    found_.ranks.assign(ranks.begin(), ranks.end());
  }

  /// Adds a group that dumps list.
  void add(const std::string& name, const std::vector<int>& order, const Listed& listed) {
    ProcessGroup group{
        .name = name, .description = listed.description, .members = listed.members, .order = order};
    const int index = static_cast<int>(found_.all.size());
    for (std::size_t i = 0; i < job_.dumps.size(); ++i)
      if (std::ranges::binary_search(group.members, job_.dumps[i].rank))
        found_.of_dump[i].emplace(name, index);
    found_.all.push_back(std::move(group));
  }

  /// Adds a group whose members no dump lists.
  void infer(std::string_view name, const Users& users) {
    ProcessGroup group{
        .name = std::string{name}, .description = std::string{users.description}, .inferred = true};
    const int index = static_cast<int>(found_.all.size());
    for (const std::size_t dump : users.dumps)
      if (found_.of_dump[dump].emplace(name, index).second)
        group.members.push_back(job_.dumps[dump].rank);
    if (group.members.empty()) return;
    if (group.description == "default_pg" || name.empty()) {  // all ranks are members
      group.members = found_.ranks;
      for (auto& of_dump : found_.of_dump) of_dump.emplace(name, index);
    }
    group.order = order_of(name, users, group.members);
    found_.all.push_back(std::move(group));
  }

  /// Returns the members by rank in the group, -1 for unknown ones. A dump with sends or receives
  /// shows its own rank in the group. If no dump has any, assumes ascending order.
  std::vector<int> order_of(std::string_view name, const Users& users,
                            const std::vector<int>& members) const {
    std::vector<int> order;
    for (const std::size_t dump : users.dumps)
      for (const Call& call : calls_[dump].all) {
        if (call.group != name || !call.is_p2p) continue;
        const int own = call.sends ? call.source : call.destination;
        if (own < 0) continue;
        const auto index = static_cast<std::size_t>(own);
        if (index >= order.size()) order.resize(index + 1, -1);
        order[index] = job_.dumps[dump].rank;
        break;
      }
    return order.empty() ? members : order;
  }

  void set_titles() {
    std::map<std::string, int> count;
    for (ProcessGroup& group : found_.all) {
      if (group.description == "undefined") group.description.clear();  // torch's default
      const std::string& given = group.description.empty() ? group.name : group.description;
      group.title = given.empty() ? "unnamed" : given;
      ++count[group.title];
    }
    constexpr std::size_t most_ranges = 4;
    for (ProcessGroup& group : found_.all)
      group.title = count[group.title] == 1 ? fmt::format("'{}'", group.title)
                                            : fmt::format("'{}' of {}", group.title,
                                                          rank_words(group.members, most_ranges));
  }

  const Job& job_;
  const std::vector<Calls>& calls_;
  std::map<std::string_view, Users> users_;
  std::map<std::string, Lists, std::less<>> lists_;  ///< by the group's name
  ProcessGroups found_;
};

}  // namespace

ProcessGroups groups_of(const Job& job, const std::vector<Calls>& calls) {
  return Finder{job, calls}.find();
}

}  // namespace lockstep::flight
