#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "viz/read/flight_recorder/rank_list.h"
#include "viz/read/flight_recorder/words.h"

namespace lockstep::flight {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t most_rows = 64;  // of a table, below its header

/// Aligns the columns of a table, whose last column has any width.
std::string table(const Rows& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      text += i + 1 < row.size() ? fmt::format("{:<{}}  ", row[i], widths[i]) : row[i];
    while (text.ends_with(' ')) text.pop_back();
    text += '\n';
  }
  return text;
}

std::string ranks_or_dash(const std::vector<int>& ranks) {
  return ranks.empty() ? "-" : rank_words(ranks, 4);
}

/// Adds a row for each group in which sends or receives wait for their other side.
void add_messages(Rows& rows, const Stall& stall) {
  struct Sides {
    std::set<int> from, to;
  };
  std::map<int, Sides> groups;
  for (const Wait& wait : stall.waits) {
    if (!wait.is_p2p) continue;
    groups[wait.group].from.insert(wait.from.begin(), wait.from.end());
    groups[wait.group].to.insert(wait.to.begin(), wait.to.end());
  }
  for (const auto& [group, sides] : groups)
    if (group >= 0)
      rows.push_back({stall.groups[static_cast<std::size_t>(group)].title, "send, recv",
                      ranks_or_dash({sides.from.begin(), sides.from.end()}),
                      ranks_or_dash({sides.to.begin(), sides.to.end()}), "-", "-"});
}

/// Returns the number of groups in which nothing is pending.
std::size_t idle_groups(const Stall& stall) {
  std::set<int> busy;
  for (std::size_t i = 0; i < stall.groups.size(); ++i)
    if (!stall.groups[i].operation.empty()) busy.insert(static_cast<int>(i));
  for (const Wait& wait : stall.waits)
    if (wait.group >= 0) busy.insert(wait.group);
  return stall.groups.size() - busy.size();
}

std::string groups_text(const Stall& stall) {
  Rows rows = group_table(stall);
  if (rows.size() > most_rows + 1) {
    const std::size_t rest = rows.size() - 1 - most_rows;
    rows.resize(most_rows + 1);
    rows.push_back({fmt::format("{} more groups", rest)});
  }
  std::string text = table(rows);
  if (const std::size_t idle = idle_groups(stall); idle > 0)
    text += fmt::format("{} other group{} nothing pending\n", idle, idle == 1 ? " has" : "s have");
  return text.empty() ? text : "\n" + text;
}

std::string ranks_text(const Stall& stall) {
  Rows rows{{"rank", "position", "last call", "waits for"}};
  const std::size_t shown = std::min(stall.ranks.size(), most_rows);
  for (std::size_t i = 0; i < shown; ++i) {
    const StalledRank& rank = stall.ranks[i];
    rows.push_back({std::to_string(rank.rank), place_words(rank.place), last_words(rank),
                    waits_words(stall, rank.rank)});
  }
  if (const std::size_t rest = stall.ranks.size() - shown; rest > 0)
    rows.push_back({fmt::format("{} more ranks", rest)});
  return "\n" + table(rows);
}

}  // namespace

Rows group_table(const Stall& stall) {
  Rows rows;
  for (const StalledGroup& group : stall.groups) {
    if (group.operation.empty()) continue;
    rows.push_back({group.title, group.operation, ranks_or_dash(group.waiting),
                    ranks_or_dash(group.not_called), ranks_or_dash(group.completed),
                    ranks_or_dash(group.no_dump)});
  }
  add_messages(rows, stall);
  if (!rows.empty())
    rows.insert(rows.begin(), {"group", "pending operation", "waiting", "not called", "completed",
                               "no " + stall.evidence});
  return rows;
}

std::string last_words(const StalledRank& rank) {
  if (rank.state == StalledRank::State::no_dump) return "unknown";
  if (rank.last.empty()) return "none";
  return rank.last + (rank.completed ? ", completed" : ", pending");
}

std::string waits_words(const Stall& stall, int rank) {
  std::string words;
  for (const Wait& wait : stall.waits) {
    if (!std::ranges::binary_search(wait.from, rank)) continue;
    words += fmt::format("{}{}", words.empty() ? "" : "; ", rank_words(wait.to, 4));
    if (words.size() > 120) return words + "; ...";
  }
  return words.empty() ? "-" : words;
}

std::string stall_summary(const Stall& stall) {
  std::string text = fmt::format("{} of {} ranks\n\n", stall.source, stall.ranks.size());
  for (const std::string& sentence : stall_sentences(stall)) text += sentence + "\n";
  text += groups_text(stall) + ranks_text(stall);
  if (!stall.notes.empty()) text += "\n";
  for (const std::string& note : stall.notes) text += note + "\n";
  return text;
}

}  // namespace lockstep::flight
