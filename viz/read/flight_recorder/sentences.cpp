#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "viz/read/flight_recorder/rank_list.h"
#include "viz/read/flight_recorder/words.h"

namespace lockstep::flight {
namespace {

using RankState = StalledRank::State;

/// Returns the form of a verb or noun that fits the number of ranks.
std::string_view form(const std::vector<int>& ranks, std::string_view one,
                      std::string_view several) {
  return ranks.size() == 1 ? one : several;
}

/// Returns "Rank 3" or "Ranks 0-2 and 4", for the beginning of a sentence.
std::string capitalized(const std::vector<int>& ranks) {
  std::string words = rank_words(ranks);
  words.front() = 'R';
  return words;
}

/// Returns "Ranks 0-2 wait, directly or not, for rank 3".
std::string waiting_words(const std::vector<int>& waiters, const std::vector<int>& awaited) {
  return fmt::format("{} {}, directly or not, for {}", capitalized(waiters),
                     form(waiters, "waits", "wait"), rank_words(awaited));
}

std::string in_group(const Stall& stall, const Wait& wait) {
  return wait.group < 0 ? std::string{}
                        : " in " + stall.groups[static_cast<std::size_t>(wait.group)].title;
}

class Sentences {
 public:
  explicit Sentences(const Stall& stall) : stall_(stall) {}

  std::vector<std::string> write() {
    if (stall_.waits.empty()) {
      no_waits();
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
  std::vector<int> ranks_in(RankState state) const {
    std::vector<int> ranks;
    for (const StalledRank& rank : stall_.ranks)
      if (rank.state == state) ranks.push_back(rank.rank);
    return ranks;
  }

  void no_waits() {
    const std::vector<int> inside = ranks_in(RankState::inside);
    if (inside.empty()) {
      all_.push_back("No rank waits for another: no operation is pending.");
      return;
    }
    all_.push_back(
        fmt::format("No rank waits for another: {} {} in operations that all their ranks have "
                    "called.",
                    rank_words(inside), form(inside, "is", "are")));
  }

  /// Names all ranks that are awaited and not in a cycle, and then the evidence for each.
  void awaited() {
    std::vector<int> ranks;
    std::set<int> waiters;
    for (const Sink& sink : stall_.sinks) {
      if (sink.cycle()) continue;
      ranks.push_back(sink.ranks.front());
      waiters.insert(sink.waiters.begin(), sink.waiters.end());
    }
    if (ranks.empty()) return;
    for (const int rank : ranks) waiters.erase(rank);
    std::string sentence = waiting_words({waiters.begin(), waiters.end()}, ranks);
    if (ranks.size() == 1) sentence += ", " + why(ranks.front());
    all_.push_back(sentence + ".");
    for (const Sink& sink : stall_.sinks) {
      if (sink.cycle()) continue;
      const int rank = sink.ranks.front();
      std::string more;
      if (ranks.size() > 1)
        more = fmt::format("{} {} for rank {}, {}.", capitalized(sink.waiters),
                           form(sink.waiters, "waits", "wait"), rank, why(rank));
      if (const std::string rest = details(rank, sink); !rest.empty())
        more += (more.empty() ? "" : " ") + rest;
      if (!more.empty()) all_.push_back(std::move(more));
    }
  }

  /// Returns a wait for this rank: preferably for it alone, and in a collective.
  const Wait& direct_wait(int rank) const {
    const Wait* best = nullptr;
    const auto cost = [](const Wait& wait) { return std::pair{wait.to.size(), wait.is_p2p}; };
    for (const Wait& wait : stall_.waits)
      if (std::ranges::binary_search(wait.to, rank) &&
          (best == nullptr || cost(wait) < cost(*best)))
        best = &wait;
    return *best;
  }

  /// Returns a clause about an awaited rank: "which has not called all_reduce #42 in 'tp'".
  std::string why(int rank) const {
    const Wait& wait = direct_wait(rank);
    const std::string group = in_group(stall_, wait);
    switch (wait.kind) {
      case WaitKind::no_dump:
        return fmt::format("whose {} is missing", stall_.evidence);
      case WaitKind::not_started:
        return fmt::format("which has called {}{}, but whose device has not started it",
                           wait.operation, group);
      case WaitKind::mismatch:
        return fmt::format("which called something other than {}{}", wait.operation, group);
      case WaitKind::not_called:
        break;
    }
    if (!wait.is_p2p) return fmt::format("which has not called {}{}", wait.operation, group);
    const bool receives = wait.operation == "recv";
    return fmt::format("which has not {} what {} {}{}", receives ? "sent" : "received",
                       rank_words(wait.from), receives ? "receives" : "sends", group);
  }

  std::string details(int rank, const Sink& sink) const {
    const StalledRank* row = stall_.find(rank);
    if (row == nullptr || row->state == RankState::no_dump) return {};
    if (sink.without == Sink::Without::overlapped) return doubt(*row);
    if (sink.without == Sink::Without::queued)
      return fmt::format(
          "Rank {} has pending operations, too, but its device has not started them: they are "
          "queued behind its own earlier work.",
          rank);
    if (row->state == RankState::inside && row->may_lack_members)
      return fmt::format(
          "Rank {} is in {}. No {} lists the members of that group. All ranks that are known to "
          "use "
          "it have called the operation; if it has other members, rank {} waits for them.",
          rank, row->last, stall_.evidence, rank);
    if (row->state == RankState::inside)
      return fmt::format("Rank {} is in {}, which all its ranks have called.", rank, row->last);
    if (row->last.empty()) return fmt::format("Rank {} has not called anything yet.", rank);
    return fmt::format(
        "Rank {} has no operation pending: its last call, {}, has completed. So it computes, has "
        "stalled in its own code, or has ended.",
        rank, row->last);
  }

  std::string doubt(const StalledRank& row) const {
    return fmt::format(
        "Rank {} continued past its pending operations: its last call, {}, has completed. Its {} "
        "does not say whether it now waits for one of them or has stalled in its own code.",
        row.rank, row.last, stall_.evidence);
  }

  void unclear(int rank) {
    if (const StalledRank* row = stall_.find(rank))
      all_.push_back(fmt::format("Rank {} may have stalled, too. {}", rank, doubt(*row)));
  }

  /// Describes a shortest cycle among the ranks.
  void cycle(const Sink& sink) {
    const int first = sink.ranks.front();
    const std::vector<CycleEdge> edges = shortest_cycle(stall_.waits, first);
    std::string chain = fmt::format("rank {}", first);
    bool mismatch = false;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      const Wait& wait = *edges[i].wait;
      chain += fmt::format("{} waits in {}{} for rank {}", i == 0 ? "" : ", which", wait.operation,
                           in_group(stall_, wait), edges[(i + 1) % edges.size()].rank);
      mismatch = mismatch || wait.kind == WaitKind::mismatch;
    }
    std::string sentence;
    if (!sink.waiters.empty()) sentence = waiting_words(sink.waiters, sink.ranks) + ". ";
    sentence += fmt::format("{} wait for one another{}: {}.", capitalized(sink.ranks),
                            mismatch ? "" : ", a deadlock", chain);
    all_.push_back(std::move(sentence));
  }

  void mismatches() {
    constexpr std::size_t most = 4;
    std::size_t count = 0;
    for (const StalledGroup& group : stall_.groups) {
      if (!group.mismatch() || ++count > most) continue;
      std::string calls;
      for (const SameCall& each : group.calls) {
        const bool second = &each == &group.calls[1];
        calls += fmt::format("{}{} called {}",
                             calls.empty() ? ""
                             : second      ? ", but "
                                           : ", and ",
                             rank_words(each.ranks), each.call);
      }
      const auto number = group.operation.rfind('#');
      all_.push_back(
          fmt::format("The calls of one collective differ: as number {} in {}, {}. The "
                      "collective can't complete.",
                      number == std::string::npos ? "?" : group.operation.substr(number + 1),
                      group.title, calls));
    }
    if (count > most)
      all_.push_back(fmt::format("{} more groups have calls that differ.", count - most));
  }

  void missing() {
    const std::vector<int> ranks = ranks_in(RankState::no_dump);
    if (!ranks.empty())
      all_.push_back(fmt::format("The {}{} of {} {} missing.", stall_.evidence,
                                 form(ranks, "", "s"), rank_words(ranks),
                                 form(ranks, "is", "are")));
  }

  const Stall& stall_;
  std::vector<std::string> all_;
};

}  // namespace

std::vector<std::string> stall_sentences(const Stall& stall) {
  return Sentences{stall}.write();
}

}  // namespace lockstep::flight
