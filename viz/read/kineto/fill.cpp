#include <algorithm>

#include "viz/read/kineto/import.h"
#include "viz/read/kineto/mesh.h"
#include "viz/read/kineto/rank_lanes.h"

namespace lockstep::kineto {
namespace {

/// Numbers the messages, by rank. The two ends of a matched message have the same id, unless the
/// clocks are not aligned.
std::vector<KnownMessages> number_messages(const Import& import) {
  std::vector<KnownMessages> messages(import.traces.size());
  std::uint64_t id = 0;
  for (const Match& match : import.matches) {
    if (match.kind != CallKind::send) continue;
    const Match::Member &sender = match.members[0], &receiver = match.members[1];
    const Picoseconds sent = import.calls[sender.rank].calls[sender.call].time.start;
    const Picoseconds received = import.calls[receiver.rank].calls[receiver.call].time.end;
    messages[sender.rank][sender.call] = {++id, import.numbers[receiver.rank]};
    if (received < sent) ++id;
    messages[receiver.rank][receiver.call] = {id, import.numbers[sender.rank]};
  }
  for (std::size_t rank = 0; rank < messages.size(); ++rank)
    for (std::size_t call = 0; call < import.calls[rank].calls.size(); ++call)
      if (is_message(import.calls[rank].calls[call].kind))
        if (const auto [at, is_new] = messages[rank].try_emplace(call); is_new)
          at->second.id = ++id;
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
  const std::vector<KnownMessages> messages = number_messages(import);
  const std::vector<LatePeers> late = late_peers(import);
  for (std::size_t i = 0; i < import.traces.size(); ++i) {
    fill_rank(import, i, late[i], messages[i], timeline);
    RankTimeline& rank = timeline.rank(import.numbers[i]);
    rank.clock_moved = import.moved[i];
    rank.clock_drift = import.alignment.ranks[i].drift;
  }
  timeline.settle();
}

}  // namespace lockstep::kineto
