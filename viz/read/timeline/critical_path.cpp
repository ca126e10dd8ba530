#include <algorithm>

#include "viz/read/timeline/step_graph.h"

namespace lockstep {

std::optional<CriticalPath> critical_path(const Timeline& timeline, int step) {
  const StepGraph graph{timeline, step};
  if (graph.empty()) return {};
  CriticalPath path{.window = graph.window(), .links = {}};
  // From the step's end backwards; time between two links belongs to neither.
  Picoseconds end = path.window.end;
  const auto explained_from = [&](Picoseconds start) {
    if (start < end) path.links.push_back({.time = {start, end}});
  };
  for (int id = graph.last(); id >= 0; id = graph.node(id).before) {
    const PathLink& link = graph.node(id).link;
    explained_from(link.time.end);
    if (link.time.start < link.time.end) path.links.push_back(link);
    end = link.time.start;
  }
  explained_from(path.window.start);
  std::ranges::reverse(path.links);
  return path;
}

CriticalPath::Parts CriticalPath::parts() const {
  Parts parts;
  for (const PathLink& link : links) {
    const Picoseconds time = link.time.end - link.time.start;
    switch (link.kind) {
      case PathLink::Kind::action:
        parts.compute[link.stage] += time - link.stalled;
        parts.stalled += link.stalled;
        break;
      case PathLink::Kind::transfer:
        parts.transfer += time;
        break;
      case PathLink::Kind::latency:
        parts.latency += time;
        break;
      case PathLink::Kind::other:
        parts.other += time;
        break;
    }
  }
  return parts;
}

}  // namespace lockstep
