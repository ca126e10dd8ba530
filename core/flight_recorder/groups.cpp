#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/flight_recorder/job.h"
#include "core/flight_recorder/rank_list.h"

namespace lockstep::flight {
namespace {

/// A list of members that some dumps contain.
struct Listed {
  std::vector<int> members;  ///< ascending
  std::string description;
  int of_rank = 0;    ///< a rank whose dump contains it
  bool valid = true;  ///< whether every rank that calls something in the group is a member
};

using Lists = std::map<std::vector<int>, Listed>;  ///< by order

class Finder {
 public:
  Finder(const Job& job, const std::vector<Calls>& calls) : job_(job), calls_(calls) {}

  ProcessGroups find() {
    for (const RankDump& dump : job_.dumps) found_.ranks.push_back(dump.rank);
    for (std::size_t i = 0; i < calls_.size(); ++i)
      for (const Call& call : calls_[i].all) {
        Users& users = users_[call.group];
        if (users.dumps.empty() || users.dumps.back() != i) users.dumps.push_back(i);
        if (users.description.empty()) users.description = call.description;
      }
    for (const RankDump& dump : job_.dumps)
      for (const GroupConfig& group : dump.dump.groups) list(group, dump.rank);
    check_lists();
    for (const auto& [name, lists] : lists_)
      for (const auto& [order, each] : lists)
        if (each.valid)
          found_.ranks.insert(found_.ranks.end(), each.members.begin(), each.members.end());
    std::ranges::sort(found_.ranks);
    found_.ranks.erase(std::ranges::unique(found_.ranks).begin(), found_.ranks.end());
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
    // Some versions of torch list gloo's groups without names, and with the groups' own ranks.
    if (group.name.empty() || group.ranks.empty()) return;
    auto& lists = lists_[group.name];
    if (lists.contains(group.ranks)) return;
    Listed listed{.members = group.ranks, .description = group.description, .of_rank = rank};
    std::ranges::sort(listed.members);
    lists.emplace(group.ranks, std::move(listed));
  }

  void check_lists() {
    for (auto& [name, lists] : lists_) {
      std::set<int> members;
      for (auto& [order, each] : lists) {
        members.insert(each.members.begin(), each.members.end());
        each.valid = std::ranges::adjacent_find(each.members) == each.members.end();
      }
      const auto users = users_.find(name);
      if (users != users_.end())
        for (const std::size_t dump : users->second.dumps)
          if (!members.contains(job_.dumps[dump].rank))
            for (auto& [order, each] : lists) each.valid = false;
      check_overlap(name, lists);
    }
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

  void add(const std::string& name, const std::vector<int>& order, const Listed& listed) {
    ProcessGroup group{
        .name = name, .description = listed.description, .members = listed.members, .order = order};
    if (group.description == "undefined") group.description.clear();
    const int index = static_cast<int>(found_.all.size());
    for (std::size_t i = 0; i < job_.dumps.size(); ++i)
      if (std::ranges::binary_search(group.members, job_.dumps[i].rank))
        found_.of_dump[i].emplace(name, index);
    found_.all.push_back(std::move(group));
  }

  /// Adds a group whose members no dump lists.
  void infer(std::string_view name, const Users& users) {
    ProcessGroup group{.name = std::string{name}, .description = {}, .members = {}, .order = {}};
    group.inferred = true;
    if (users.description != "undefined") group.description = users.description;
    const int index = static_cast<int>(found_.all.size());
    for (const std::size_t dump : users.dumps)
      if (found_.of_dump[dump].emplace(name, index).second)
        group.members.push_back(job_.dumps[dump].rank);
    if (group.members.empty()) return;
    if (group.description == "default_pg" || name.empty()) group.members = found_.ranks;
    group.order = order_of(name, users, group.members);
    found_.all.push_back(std::move(group));
  }

  /// Returns the members by rank in the group, -1 for unknown ones. If they sent or received
  /// something, each dump contains its own rank in the group, and some members may be unknown.
  std::vector<int> order_of(std::string_view name, const Users& users,
                            const std::vector<int>& members) const {
    std::vector<int> order;
    for (const std::size_t dump : users.dumps)
      for (const Call& call : calls_[dump].all) {
        if (call.group != name || !call.is_p2p) continue;
        const int own = call.sends ? call.source : call.destination;
        if (own < 0 || own >= most_ranks) continue;
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
  std::map<std::string, Lists, std::less<>> lists_;
  ProcessGroups found_;
};

}  // namespace

ProcessGroups groups_of(const Job& job, const std::vector<Calls>& calls) {
  return Finder{job, calls}.find();
}

}  // namespace lockstep::flight
