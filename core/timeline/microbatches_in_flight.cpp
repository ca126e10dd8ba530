#include "core/timeline/pipeline_graph.h"

namespace lockstep {

std::vector<std::vector<InFlight>> microbatches_in_flight(const Timeline& timeline, int step) {
  const PipelineGraph graph{timeline, step};
  std::vector<std::vector<InFlight>> ranks;
  if (graph.empty()) return ranks;
  for (std::size_t rank = 0; rank < timeline.ranks().size(); ++rank) {
    auto& changes = ranks.emplace_back();
    int now = 0;
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

}  // namespace lockstep
