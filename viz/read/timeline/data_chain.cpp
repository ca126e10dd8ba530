#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "viz/read/timeline/step_graph.h"
#include "viz/read/timeline/visit_band.h"

namespace lockstep {

namespace {

/// The action whose result each action uses, by id. An action that reads the data has none.
std::map<int, int> inputs_of(const StepGraph& graph, const std::vector<int>& actions) {
  std::map<std::tuple<int, int, int, Category>, int> ids;
  for (const int id : actions) {
    const PathLink& link = graph.node(id).link;
    ids.try_emplace({link.rank, link.stage, link.microbatch, link.category}, id);
  }
  std::map<int, int> inputs;
  for (const int id : actions) {
    const PathLink& link = graph.node(id).link;
    int input = graph.node(id).input;
    if (input < 0 && link.category != Category::forward) {
      const Category source =
          link.category == Category::backward_weight ? Category::backward_input : Category::forward;
      const auto found = ids.find({link.rank, link.stage, link.microbatch, source});
      if (found != ids.end()) input = found->second;
    }
    if (input >= 0) inputs[id] = input;
  }
  return inputs;
}

}  // namespace

std::optional<DataChain> data_chain(const Timeline& timeline, int step, int rank,
                                    Picoseconds start) {
  const StepGraph graph{timeline, step};
  const StepWindow* window = timeline.find_step(step);
  if (graph.empty() || !window) return {};
  std::vector<int> actions;
  int self = -1;
  for (std::size_t i = 0; i < timeline.ranks().size(); ++i) {
    for (const int id : graph.actions(i)) {
      const PathLink& link = graph.node(id).link;
      actions.push_back(id);
      if (link.rank == rank && link.time.start == start) self = id;
    }
  }
  if (self < 0) return {};
  DataChain chain{.action = graph.node(self).link};
  const auto inputs = inputs_of(graph, actions);
  std::set<int> seen{self};  // in a trace that Lockstep did not write, inputs may form a cycle
  for (auto at = inputs.find(self); at != inputs.end() && seen.insert(at->second).second;
       at = inputs.find(at->second))
    chain.before.push_back(graph.node(at->second).link);
  std::ranges::reverse(chain.before);

  std::multimap<int, int> users;
  for (const auto& [id, input] : inputs) users.emplace(input, id);
  std::vector<int> open{self};
  while (!open.empty()) {
    const auto [first, last] = users.equal_range(open.back());
    open.pop_back();
    for (auto user = first; user != last; ++user) {
      if (!seen.insert(user->second).second) continue;
      chain.after.push_back(graph.node(user->second).link);
      open.push_back(user->second);
    }
  }
  std::ranges::stable_sort(chain.after, {}, [](const PathLink& link) { return link.time.start; });

  std::set<int> with_gradients;
  if (chain.action.category != Category::forward) with_gradients.insert(chain.action.rank);
  for (const PathLink& link : chain.after)
    if (link.category != Category::forward) with_gradients.insert(link.rank);
  for (const int each : with_gradients) {
    const RankTimeline* of = timeline.find_rank(each);
    if (!of || !of->compute()) continue;
    visit_band(*of->compute(), Band::action, {window->start, window->end},
               [&](const TimelineSpan& span) {
                 if (span.step == step && span.category == Category::optimizer)
                   chain.updates.push_back({each, {span.start, span.end}});
               });
  }
  return chain;
}

}  // namespace lockstep
