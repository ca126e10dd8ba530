#include "core/flight_recorder/wait_for.h"

#include <algorithm>
#include <functional>
#include <map>

namespace lockstep::flight {
namespace {

using Index = std::size_t;

/// The ranks that occur in some waits, by number, and after them a node for each wait: the edges
/// lead from its waiting ranks to the wait, and from there to the ranks that it waits for.
struct Graph {
  std::vector<int> ranks;  ///< ascending
  std::vector<std::vector<Index>> to, from;

  Graph(const std::vector<const Wait*>& waits, const std::function<bool(const Wait&)>& counts) {
    for (const Wait* wait : waits) {
      ranks.insert(ranks.end(), wait->from.begin(), wait->from.end());
      ranks.insert(ranks.end(), wait->to.begin(), wait->to.end());
    }
    std::ranges::sort(ranks);
    ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
    to.resize(ranks.size() + waits.size());
    from.resize(to.size());
    for (Index i = 0; i < waits.size(); ++i) {
      if (!counts(*waits[i])) continue;
      for (const int rank : waits[i]->from) connect(index(rank), ranks.size() + i);
      for (const int rank : waits[i]->to) connect(ranks.size() + i, index(rank));
    }
  }
  Index nodes() const { return to.size(); }
  bool is_rank(Index node) const { return node < ranks.size(); }
  Index index(int rank) const {
    return static_cast<Index>(std::ranges::lower_bound(ranks, rank) - ranks.begin());
  }

 private:
  void connect(Index a, Index b) {
    to[a].push_back(b);
    from[b].push_back(a);
  }
};

/// Returns the number of each node's strongly connected component (Tarjan's algorithm, with a stack
/// of its own, because chains may be as long as the number of ranks).
std::vector<Index> components(const Graph& graph) {
  constexpr Index none = static_cast<Index>(-1);
  const Index count = graph.nodes();
  std::vector<Index> number(count, none), low(count, 0), component(count, none), stack;
  struct Frame {
    Index node, next = 0;
  };
  std::vector<Frame> frames;
  Index numbers = 0, found = 0;
  for (Index root = 0; root < count; ++root) {
    if (number[root] != none) continue;
    frames.push_back({root});
    while (!frames.empty()) {
      auto& [node, next] = frames.back();
      if (next == 0) {
        number[node] = low[node] = numbers++;
        stack.push_back(node);
      }
      if (next < graph.to[node].size()) {
        const Index other = graph.to[node][next++];
        if (number[other] == none) {
          frames.push_back({other});
        } else if (component[other] == none) {
          low[node] = std::min(low[node], number[other]);
        }
        continue;
      }
      const Index done = node;
      frames.pop_back();
      if (!frames.empty()) low[frames.back().node] = std::min(low[frames.back().node], low[done]);
      if (low[done] != number[done]) continue;
      for (Index member = none; member != done;) {
        member = stack.back();
        stack.pop_back();
        component[member] = found;
      }
      ++found;
    }
  }
  return component;
}

/// Returns the components that have no edge to another, as lists of ranks.
std::vector<std::vector<int>> sinks_of(const Graph& graph) {
  const std::vector<Index> component = components(graph);
  std::map<Index, std::vector<int>> members;
  std::vector<bool> leaves(graph.nodes(), false);
  for (Index node = 0; node < graph.nodes(); ++node) {
    if (graph.is_rank(node)) members[component[node]].push_back(graph.ranks[node]);
    for (const Index other : graph.to[node])
      if (component[other] != component[node]) leaves[component[node]] = true;
  }
  std::vector<std::vector<int>> sinks;
  for (auto& [id, ranks] : members)
    if (!leaves[id]) sinks.push_back(std::move(ranks));
  std::ranges::sort(sinks);
  return sinks;
}

/// Returns all ranks from which edges lead to one of `ranks`, without these.
std::vector<int> waiters_of(const Graph& graph, const std::vector<int>& ranks) {
  std::vector<bool> seen(graph.nodes(), false);
  std::vector<Index> open;
  for (const int rank : ranks) {
    open.push_back(graph.index(rank));
    seen[open.back()] = true;
  }
  std::vector<int> waiters;
  while (!open.empty()) {
    const Index node = open.back();
    open.pop_back();
    for (const Index other : graph.from[node]) {
      if (seen[other]) continue;
      seen[other] = true;
      if (graph.is_rank(other)) waiters.push_back(graph.ranks[other]);
      open.push_back(other);
    }
  }
  std::ranges::sort(waiters);
  return waiters;
}

/// Returns single ranks of a cycle that wait for nobody if the waits that may not hold them up do
/// not count.
std::vector<std::vector<int>> without(Sink::Without what, const std::vector<int>& cycle,
                                      const std::vector<const Wait*>& waits) {
  std::vector<const Wait*> inside;  // nobody in the cycle waits for a rank outside
  for (const Wait* wait : waits)
    if (std::ranges::binary_search(cycle, wait->to.front())) inside.push_back(wait);
  const Graph rest{inside, [&](const Wait& wait) {
                     return what == Sink::Without::queued ? !wait.queued : !wait.overlapped;
                   }};
  std::vector<std::vector<int>> single;
  for (std::vector<int>& sink : sinks_of(rest))
    if (sink.size() == 1 && std::ranges::binary_search(cycle, sink.front()) &&
        !waiters_of(rest, sink).empty())
      single.push_back(std::move(sink));
  return single;
}

}  // namespace

std::vector<Sink> find_sinks(const std::vector<Wait>& waits) {
  std::vector<const Wait*> all;
  for (const Wait& wait : waits)
    if (!wait.from.empty() && !wait.to.empty()) all.push_back(&wait);
  const Graph graph{all, [](const Wait&) { return true; }};
  std::vector<Sink> found;
  const auto add = [&](std::vector<int> ranks, Sink::Without how) {
    std::vector<int> waiters = waiters_of(graph, ranks);
    if (ranks.size() > 1 || !waiters.empty())
      found.push_back({std::move(ranks), std::move(waiters), how});
  };
  for (std::vector<int>& ranks : sinks_of(graph)) {
    std::vector<std::vector<int>> single;
    auto how = Sink::Without::nothing;
    for (const auto what : {Sink::Without::queued, Sink::Without::overlapped})
      if (ranks.size() > 1 && single.empty()) {
        single = without(what, ranks, all);
        how = what;
      }
    if (single.empty()) {
      add(std::move(ranks), Sink::Without::nothing);
    } else {
      for (std::vector<int>& rank : single) add(std::move(rank), how);
    }
  }
  std::ranges::sort(found, {}, &Sink::ranks);
  return found;
}

}  // namespace lockstep::flight
