#include "viz/read/timeline/traffic.h"

#include <map>
#include <tuple>

#include "viz/read/timeline/visit_sends.h"

namespace lockstep {

std::vector<PeerTraffic> step_traffic(const Timeline& timeline, int step) {
  std::vector<PeerTraffic> all;
  for (const auto& rank : timeline.ranks()) {
    std::map<std::tuple<int, NameId, NameId>, PeerTraffic> sent;
    visit_sends(timeline, *rank, step, [&](const TimelineSpan& span) {
      PeerTraffic& traffic = sent[{span.peer, span.group, span.name}];
      traffic.bytes = plus(traffic.bytes, span.bytes);
      ++traffic.messages;
    });
    for (auto& [key, traffic] : sent) {
      traffic.from = rank->rank;
      std::tie(traffic.to, traffic.group, traffic.operation) = key;
      all.push_back(traffic);
    }
  }
  return all;
}

}  // namespace lockstep
