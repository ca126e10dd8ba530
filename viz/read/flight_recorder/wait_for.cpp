#include "viz/read/flight_recorder/wait_for.h"

#include <algorithm>
#include <map>

namespace lockstep::flight {
namespace {

using Index = std::size_t;

/// The wait-for graph. Its nodes are the ranks that occur in the waits, followed by a node for each
/// wait, so that a wait of m ranks for n others needs m + n edges instead of m n.
struct Graph {
  std::vector<int> ranks;  ///< ascending
  std::vector<std::vector<Index>> to, from;

  explicit Graph(const std::vector<const Wait*>& waits) {
    for (const Wait* wait : waits) {
      ranks.insert(ranks.end(), wait->from.begin(), wait->from.end());
      ranks.insert(ranks.end(), wait->to.begin(), wait->to.end());
    }
    std::ranges::sort(ranks);
    ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
    to.resize(ranks.size() + waits.size());
    from.resize(to.size());
    for (Index i = 0; i < waits.size(); ++i) {
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

/// Returns the nodes in the order in which a depth-first search against the edges finishes them.
/// The search keeps its own stack, because a chain may contain all ranks.
std::vector<Index> finishing_order(const Graph& graph) {
  struct Frame {
    Index node, next = 0;
  };
  std::vector<bool> seen(graph.nodes(), false);
  std::vector<Index> finished;
  for (Index root = 0; root < graph.nodes(); ++root) {
    if (seen[root]) continue;
    seen[root] = true;
    std::vector<Frame> stack{{root}};
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next == graph.from[node].size()) {
        finished.push_back(node);
        stack.pop_back();
      } else if (const Index other = graph.from[node][next++]; !seen[other]) {
        seen[other] = true;
        stack.push_back({other});
      }
    }
  }
  return finished;
}

/// Returns the strongly connected components that have no edge to another, as lists of ranks
/// (Kosaraju's algorithm: from the node that finished last, the edges reach only its component and
/// components that have been found before).
std::vector<std::vector<int>> sinks_of(const Graph& graph) {
  constexpr Index none = static_cast<Index>(-1);
  std::vector<Index> component(graph.nodes(), none);
  std::vector<std::vector<int>> sinks;
  const std::vector<Index> finished = finishing_order(graph);
  for (auto root = finished.rbegin(); root != finished.rend(); ++root) {
    if (component[*root] != none) continue;
    component[*root] = *root;
    std::vector<Index> open{*root};
    std::vector<int> ranks;
    bool is_sink = true;
    while (!open.empty()) {
      const Index node = open.back();
      open.pop_back();
      if (graph.is_rank(node)) ranks.push_back(graph.ranks[node]);
      for (const Index other : graph.to[node]) {
        if (component[other] == none) {
          component[other] = *root;
          open.push_back(other);
        }
        is_sink = is_sink && component[other] == *root;
      }
    }
    if (!is_sink) continue;
    std::ranges::sort(ranks);
    sinks.push_back(std::move(ranks));
  }
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

/// Returns the single ranks of a cycle that are sinks if the waits that may not block a rank are
/// disregarded.
std::vector<std::vector<int>> sinks_without(Sink::Without what, const std::vector<int>& cycle,
                                            const std::vector<const Wait*>& waits) {
  std::vector<const Wait*> rest;
  for (const Wait* wait : waits)
    if (std::ranges::binary_search(cycle, wait->to.front()) &&
        !(what == Sink::Without::queued ? wait->queued : wait->overlapped))
      rest.push_back(wait);
  const Graph graph{rest};
  std::vector<std::vector<int>> single;
  for (std::vector<int>& sink : sinks_of(graph))
    if (sink.size() == 1 && std::ranges::binary_search(cycle, sink.front()))
      single.push_back(std::move(sink));
  return single;
}

}  // namespace

std::vector<Sink> find_sinks(const std::vector<Wait>& waits) {
  std::vector<const Wait*> all;
  for (const Wait& wait : waits) all.push_back(&wait);
  const Graph graph{all};
  std::vector<Sink> found;
  const auto add = [&](std::vector<int> ranks, Sink::Without without) {
    std::vector<int> waiters = waiters_of(graph, ranks);
    found.push_back({std::move(ranks), std::move(waiters), without});
  };
  for (std::vector<int>& ranks : sinks_of(graph)) {
    std::vector<std::vector<int>> single;
    auto without = Sink::Without::nothing;
    for (const auto what : {Sink::Without::queued, Sink::Without::overlapped})
      if (ranks.size() > 1 && single.empty()) {
        single = sinks_without(what, ranks, all);
        without = what;
      }
    if (single.empty()) {
      add(std::move(ranks), Sink::Without::nothing);
    } else {
      for (std::vector<int>& rank : single) add(std::move(rank), without);
    }
  }
  std::ranges::sort(found, {}, &Sink::ranks);
  return found;
}

std::vector<CycleEdge> shortest_cycle(const std::vector<Wait>& waits, int rank) {
  std::map<int, CycleEdge> reached;  // for each rank, the edge that leads to it
  std::vector<int> open{rank};       // breadth first
  for (std::size_t i = 0; i < open.size(); ++i)
    for (const Wait& wait : waits) {
      if (!std::ranges::binary_search(wait.from, open[i])) continue;
      for (const int next : wait.to) {
        if (!reached.emplace(next, CycleEdge{open[i], &wait}).second) continue;
        if (next != rank) {
          open.push_back(next);
          continue;
        }
        std::vector<CycleEdge> cycle{reached.at(rank)};
        while (cycle.back().rank != rank) cycle.push_back(reached.at(cycle.back().rank));
        std::ranges::reverse(cycle);
        return cycle;
      }
    }
  return {};
}

}  // namespace lockstep::flight
