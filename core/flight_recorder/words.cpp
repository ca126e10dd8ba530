#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "core/flight_recorder/rank_list.h"
#include "core/flight_recorder/stall.h"

namespace lockstep::flight {
namespace {

using RankState = StalledRank::State;

/// Returns "waits" or "wait" for these ranks.
std::string verb(const std::vector<int>& ranks, std::string_view one, std::string_view several) {
  return std::string{ranks.size() == 1 ? one : several};
}

std::string capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 32);
  return text;
}

bool is_message(const Wait& wait) {
  return wait.operation.starts_with("send to") || wait.operation.starts_with("recv from");
}

std::string group_of(const Stall& stall, const Wait& wait) {
  return wait.group < 0 ? std::string{}
                        : " in " + stall.groups[static_cast<std::size_t>(wait.group)].title;
}

class Words {
 public:
  explicit Words(const Stall& stall) : stall_(stall) {}

  std::vector<std::string> write() {
    if (stall_.waits.empty()) {
      without_waits();
    } else {
      awaited();
      for (const Sink& sink : stall_.sinks)
        if (sink.cycle()) cycle(sink);
    }
    for (const int rank : stall_.unclear) unclear(rank);
    mismatches();
    missing();
    return std::move(all_);
  }

 private:
  void without_waits() {
    std::vector<int> inside;
    for (const StalledRank& rank : stall_.ranks)
      if (rank.state == RankState::inside) inside.push_back(rank.rank);
    if (inside.empty()) {
      all_.push_back("No rank waits for another: no operation is pending.");
      return;
    }
    all_.push_back(
        fmt::format("No rank waits for one that has not come: {} {} inside operations that all "
                    "their ranks have "
                    "called.",
                    rank_words(inside), verb(inside, "is", "are")));
  }

  /// The sentence about all ranks that are awaited and wait for nobody.
  void awaited() {
    std::vector<int> ranks, waiters;
    std::set<int> seen;
    for (const Sink& sink : stall_.sinks) {
      if (sink.cycle()) continue;
      ranks.push_back(sink.ranks.front());
      seen.insert(sink.waiters.begin(), sink.waiters.end());
    }
    if (ranks.empty()) return;
    for (const int rank : ranks) seen.erase(rank);
    waiters.assign(seen.begin(), seen.end());
    std::string sentence =
        fmt::format("{} {}, directly or not, for {}", capital(rank_words(waiters)),
                    verb(waiters, "waits", "wait"), rank_words(ranks));
    if (ranks.size() == 1) sentence += ", " + why(ranks.front());
    all_.push_back(sentence + ".");
    for (const Sink& sink : stall_.sinks) {
      if (sink.cycle()) continue;
      const int rank = sink.ranks.front();
      std::string more = ranks.size() > 1
                             ? fmt::format("Rank {} is awaited by {}: it is the one {}.", rank,
                                           rank_words(sink.waiters), why(rank))
                             : std::string{};
      if (std::string rest = details(rank, sink); !rest.empty())
        more += (more.empty() ? "" : " ") + rest;
      if (!more.empty()) all_.push_back(std::move(more));
    }
  }

  /// Returns a wait for this rank: preferably for it alone, and in a collective.
  const Wait* direct(int rank) const {
    const Wait* best = nullptr;
    const auto cost = [](const Wait& wait) { return std::pair{wait.to.size(), is_message(wait)}; };
    for (const Wait& wait : stall_.waits)
      if (std::ranges::binary_search(wait.to, rank) &&
          (best == nullptr || cost(wait) < cost(*best)))
        best = &wait;
    return best;
  }

  /// Returns a clause about an awaited rank: "which has not called all_reduce #42 in 'tp'".
  std::string why(int rank) const {
    const Wait* wait = direct(rank);
    if (wait == nullptr) return "which they need";
    const std::string where = group_of(stall_, *wait);
    switch (wait->kind) {
      case WaitKind::no_dump:
        return fmt::format("whose {} is missing", stall_.evidence);
      case WaitKind::not_started:
        return fmt::format("which has called {}{}, but whose device has not started it",
                           wait->operation, where);
      case WaitKind::mismatch:
        return fmt::format("which called something other than {}{}", wait->operation, where);
      case WaitKind::not_called:
        break;
    }
    if (wait->operation.starts_with("recv from"))
      return fmt::format("which has not sent what {} receives{}", rank_words(wait->from), where);
    if (wait->operation.starts_with("send to"))
      return fmt::format("which has not received what {} sends{}", rank_words(wait->from), where);
    return fmt::format("which has not called {}{}", wait->operation, where);
  }

  std::string details(int rank, const Sink& sink) const {
    const StalledRank* row = stall_.find(rank);
    if (row == nullptr || row->state == RankState::no_dump) return {};
    if (sink.without == Sink::Without::overlapped) return doubt(rank, *row);
    if (sink.without == Sink::Without::queued)
      return fmt::format(
          "Operations of rank {} are pending as well, but its device has not started them: they "
          "are "
          "behind its own earlier work.",
          rank);
    if (row->state == RankState::inside && row->may_lack_members)
      return fmt::format(
          "Rank {} is inside {}. No {} lists the members of that group, and all ranks that ever "
          "called something in it have come; if it has more, it waits for them.",
          rank, row->last, stall_.evidence);
    if (row->state == RankState::inside)
      return fmt::format("Rank {} is inside {}, which all its ranks have called.", rank, row->last);
    if (row->last.empty()) return fmt::format("Rank {} has not called anything yet.", rank);
    return fmt::format(
        "Rank {} has no operation pending: its last call, {}, has completed. So it computes, has "
        "stalled in its own code, or has ended.",
        rank, row->last);
  }

  std::string doubt(int rank, const StalledRank& row) const {
    return fmt::format(
        "Rank {} went on after its pending operations: its last call, {}, has completed. Whether "
        "it "
        "now waits for one of them or has stalled in its own code, its {} does not say.",
        rank, row.last, stall_.evidence);
  }

  void unclear(int rank) {
    if (const StalledRank* row = stall_.find(rank))
      all_.push_back(fmt::format("Rank {} may have stalled, too. {}", rank, doubt(rank, *row)));
  }

  /// Describes a shortest cycle among the ranks.
  void cycle(const Sink& sink) {
    const Path path = shortest_cycle(sink.ranks);
    std::string words = fmt::format("rank {}", sink.ranks.front());
    bool mismatch = false;
    for (std::size_t i = 0; i < path.size(); ++i) {
      const Wait& wait = *path[i].second;
      const int next = i + 1 < path.size() ? path[i + 1].first : sink.ranks.front();
      const std::string operation =  // the rank follows
          is_message(wait) ? wait.operation.substr(0, wait.operation.find(' ')) : wait.operation;
      words += fmt::format("{} waits in {}{} for rank {}", i == 0 ? "" : ", which", operation,
                           group_of(stall_, wait), next);
      mismatch = mismatch || wait.kind == WaitKind::mismatch;
    }
    std::string sentence;
    if (!sink.waiters.empty())
      sentence = fmt::format("{} {}, directly or not, for {}. ", capital(rank_words(sink.waiters)),
                             verb(sink.waiters, "waits", "wait"), rank_words(sink.ranks));
    sentence += fmt::format("{} wait for one another{}: {}.", capital(rank_words(sink.ranks)),
                            mismatch ? "" : ", a deadlock", words);
    all_.push_back(std::move(sentence));
  }

  using Path = std::vector<std::pair<int, const Wait*>>;  ///< each waits in this for the next

  /// Returns a shortest cycle through the first of these ranks.
  Path shortest_cycle(const std::vector<int>& ranks) const {
    const int first = ranks.front();
    std::map<int, std::pair<int, const Wait*>> came;  // rank: from whom, and by which wait
    std::vector<int> open{first};
    for (std::size_t i = 0; i < open.size(); ++i) {
      for (const Wait& wait : stall_.waits) {
        if (!std::ranges::binary_search(wait.from, open[i])) continue;
        for (const int next : wait.to) {
          if (next != first && !came.emplace(next, std::pair{open[i], &wait}).second) continue;
          if (next != first) {
            open.push_back(next);
            continue;
          }
          Path path{{open[i], &wait}};
          while (path.back().first != first) path.push_back(came.at(path.back().first));
          std::ranges::reverse(path);
          return path;
        }
      }
    }
    return {};
  }

  void mismatches() {
    constexpr std::size_t most = 4;
    std::size_t count = 0;
    for (const StalledGroup& group : stall_.groups) {
      if (!group.mismatch()) continue;
      if (++count > most) continue;
      std::string words;
      for (std::size_t i = 0; i < group.calls.size(); ++i)
        words += fmt::format("{}{} called {}",
                             i == 0   ? ""
                             : i == 1 ? ", but "
                                      : ", and ",
                             rank_words(group.calls[i].ranks), group.calls[i].call);
      const auto number = group.operation.rfind('#');
      all_.push_back(
          fmt::format("The calls of one collective differ: as number {} in {}, {}. It can't "
                      "complete as called.",
                      number == std::string::npos ? "?" : group.operation.substr(number + 1),
                      group.title, words));
    }
    if (count > most)
      all_.push_back(fmt::format("{} more groups have calls that differ.", count - most));
  }

  void missing() {
    std::vector<int> ranks;
    for (const StalledRank& rank : stall_.ranks)
      if (rank.state == RankState::no_dump) ranks.push_back(rank.rank);
    if (!ranks.empty())
      all_.push_back(fmt::format("The {}{} of {} {} missing.", stall_.evidence,
                                 verb(ranks, "", "s"), rank_words(ranks),
                                 verb(ranks, "is", "are")));
  }

  const Stall& stall_;
  std::vector<std::string> all_;
};

/// Aligns the columns of a table; the last one has any width.
std::string table(const std::vector<std::vector<std::string>>& rows) {
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
void add_messages(std::vector<std::vector<std::string>>& rows, const Stall& stall) {
  struct Messages {
    std::set<int> from, to;
  };
  std::map<int, Messages> groups;
  for (const Wait& wait : stall.waits) {
    if (!is_message(wait)) continue;
    groups[wait.group].from.insert(wait.from.begin(), wait.from.end());
    groups[wait.group].to.insert(wait.to.begin(), wait.to.end());
  }
  for (const auto& [group, messages] : groups)
    if (group >= 0)
      rows.push_back({stall.groups[static_cast<std::size_t>(group)].title, "send, recv",
                      ranks_or_dash({messages.from.begin(), messages.from.end()}),
                      ranks_or_dash({messages.to.begin(), messages.to.end()}), "-", "-"});
}

}  // namespace

std::vector<std::string> stall_sentences(const Stall& stall) {
  return Words{stall}.write();
}

std::vector<std::vector<std::string>> group_table(const Stall& stall) {
  std::vector<std::vector<std::string>> rows;
  for (const StalledGroup& group : stall.groups) {
    if (group.operation.empty()) continue;
    rows.push_back({group.title, group.operation, ranks_or_dash(group.waiting),
                    ranks_or_dash(group.not_called), ranks_or_dash(group.completed),
                    ranks_or_dash(group.no_dump)});
  }
  add_messages(rows, stall);
  if (!rows.empty())
    rows.insert(rows.begin(), {"group", "not completed", "wait in it", "have not come",
                               "have completed it", "no " + stall.evidence});
  return rows;
}

std::string stall_summary(const Stall& stall) {
  constexpr std::size_t most_rows = 64;
  std::string text = fmt::format("{} of {} ranks\n\n", stall.source, stall.ranks.size());
  for (const std::string& sentence : stall_sentences(stall)) text += sentence + "\n";
  auto groups = group_table(stall);
  const std::size_t pending = groups.empty() ? 0 : groups.size() - 1;
  std::set<std::size_t> busy;
  for (std::size_t i = 0; i < stall.groups.size(); ++i)
    if (!stall.groups[i].operation.empty()) busy.insert(i);
  for (const Wait& wait : stall.waits)
    if (wait.group >= 0) busy.insert(static_cast<std::size_t>(wait.group));
  if (pending > most_rows) {
    groups.resize(most_rows + 1);
    groups.push_back({fmt::format("{} more groups", pending - most_rows)});
  }
  if (!groups.empty()) text += "\n" + table(groups);
  if (const std::size_t rest = stall.groups.size() - busy.size(); rest > 0)
    text += fmt::format("{}{} other group{} nothing pending\n", groups.empty() ? "\n" : "", rest,
                        rest == 1 ? " has" : "s have");
  std::vector<std::vector<std::string>> rows{{"rank", "position", "last call", "waits for"}};
  for (const StalledRank& rank : stall.ranks) {
    if (rows.size() > most_rows) break;
    rows.push_back({std::to_string(rank.rank), place_words(rank), last_words(rank),
                    waits_words(stall, rank.rank)});
  }
  text += "\n" + table(rows);
  if (stall.ranks.size() >= rows.size())
    text += fmt::format("{} more ranks\n", stall.ranks.size() - (rows.size() - 1));
  if (!stall.notes.empty()) text += "\n";
  for (const std::string& note : stall.notes) text += note + "\n";
  return text;
}

std::string place_words(const StalledRank& rank) {
  std::string words;
  for (const auto& [axis, index] : rank.place)
    words += fmt::format("{}{}{}", words.empty() ? "" : " ", axis, index);
  return words;
}

std::string last_words(const StalledRank& rank) {
  if (rank.state == RankState::no_dump) return "unknown";
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

}  // namespace lockstep::flight
