#include <algorithm>

#include "viz/read/kineto/import.h"
#include "viz/read/kineto/mesh.h"
#include "viz/read/kineto/rank_lanes.h"

namespace lockstep::kineto {
namespace {

/// A matched message: the positions of its ranks in the import, and its calls.
struct MatchedMessage {
  Match::Member sender, receiver;
};

std::vector<MatchedMessage> messages_of(const Import& import) {
  std::vector<MatchedMessage> messages;
  for (const Match& match : import.matches)
    if (match.kind == CallKind::send) messages.push_back({match.members[0], match.members[1]});
  return messages;
}

void set_run_info(const Import& import, RunInfo& run) {
  run.tool = "PyTorch";
  run.lesson = "PyTorch";
  run.device = std::ranges::any_of(import.traces, &Trace::has_gpu) ? "cuda" : "cpu";
  run.clock = "wall";
  run.ranks = static_cast<int>(import.traces.size());
  run.mesh = mesh_of(import.traces);
  run.notes = import.notes;
  if (import.alignment.collectives + import.alignment.messages > 0 && import.traces.size() > 1)
    run.clock_residual = import.alignment.residual;
}

}  // namespace

void fill(const Import& import, Timeline& timeline) {
  set_run_info(import, timeline.run());
  const std::vector<MatchedMessage> messages = messages_of(import);
  std::vector<MessagePeers> peers(import.traces.size());
  for (const auto& [sender, receiver] : messages) {
    peers[sender.rank][sender.call] = import.numbers[receiver.rank];
    peers[receiver.rank][receiver.call] = import.numbers[sender.rank];
  }
  const std::vector<LatePeers> late = late_peers(import);
  std::vector<std::vector<int>> lanes;  // by rank and call
  for (std::size_t i = 0; i < import.traces.size(); ++i) {
    lanes.push_back(fill_rank(import, i, late[i], peers[i], timeline));
    RankTimeline& rank = timeline.rank(import.numbers[i]);
    rank.clock_moved = import.moved[i];
    rank.clock_drift = import.alignment.ranks[i].drift;
  }
  std::uint64_t id = 0;
  for (const auto& [sender, receiver] : messages) {
    const Picoseconds sent = import.calls[sender.rank].calls[sender.call].time.start;
    const Picoseconds received = import.calls[receiver.rank].calls[receiver.call].time.end;
    if (received < sent) continue;  // the clocks are not aligned
    timeline.flow_start(++id, import.numbers[sender.rank], lanes[sender.rank][sender.call], sent);
    timeline.flow_end(id, import.numbers[receiver.rank], lanes[receiver.rank][receiver.call],
                      received);
  }
  timeline.settle();
}

}  // namespace lockstep::kineto
