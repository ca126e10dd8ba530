#include <algorithm>
#include <set>

#include "viz/read/timeline/step_graph.h"

namespace lockstep {

namespace {

/// Returns the number of microbatches whose backward pass is among these actions of a rank, but not
/// their forward pass, which ran in an earlier step.
int in_flight_before(const StepGraph& graph, const std::vector<int>& actions) {
  std::set<std::pair<int, int>> forwards;  // by stage and microbatch
  int before = 0;
  for (const int id : actions) {
    const PathLink& action = graph.node(id).link;
    if (action.category == Category::forward)
      forwards.emplace(action.stage, action.microbatch);
    else if (action.category != Category::backward_input)
      before += forwards.contains({action.stage, action.microbatch}) ? 0 : 1;
  }
  return before;
}

}  // namespace

std::vector<std::vector<InFlight>> microbatches_in_flight(const Timeline& timeline, int step) {
  const StepGraph graph{timeline, step};
  std::vector<std::vector<InFlight>> ranks;
  if (graph.empty()) return ranks;
  for (std::size_t rank = 0; rank < timeline.ranks().size(); ++rank) {
    auto& changes = ranks.emplace_back();
    int now = in_flight_before(graph, graph.actions(rank));
    if (now > 0) changes.push_back({graph.window().start, now});
    for (const int id : graph.actions(rank)) {
      const PathLink& action = graph.node(id).link;
      if (action.category == Category::forward)
        changes.push_back({action.time.start, ++now});
      else if (action.category != Category::backward_input)
        changes.push_back({action.time.end, --now});
    }
  }
  return ranks;
}

int most_chunks(const Timeline& timeline, int step) {
  std::size_t most = 0;
  for (const auto& rank : timeline.ranks())
    most = std::max(most, stages_of(timeline, *rank, step).size());
  return static_cast<int>(most);
}

}  // namespace lockstep
