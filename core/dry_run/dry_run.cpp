#include "core/dry_run/dry_run.h"

#include <numeric>
#include <vector>

#include "core/dry_run/recording_transport.h"

namespace lockstep {

void DryFigures::fill(Predicted& predicted) const {
  for (const Operation operation : all_operations)
    predicted.bytes_sent[operation] = bytes_sent[operation];
  for (const MemoryCategory category : all_memory_categories)
    predicted.peak_bytes[category] = peak.of(category);
  predicted.by_dry_run = true;
}

void DryRank::run(int microbatches, const std::function<void(const Batch& mine)>& step, int count) {
  const Batch batch =
      batch_without_tokens(plan.samples(place, microbatches), plan.model().sequence);

  const BytesSent before = transport_.bytes_sent();
  transport_.sent_to().clear();
  device().memory.reset_peak();
  for (int i = 0; i < count; ++i) step(batch);
  figures_ = {.bytes_sent = transport_.bytes_sent() - before,
              .peak = device().memory.peak(),
              .sent_to = std::move(transport_.sent_to())};
  for (const Operation operation : all_operations) figures_.bytes_sent[operation] /= count;
  for (auto& [group, to] : figures_.sent_to)
    for (auto& [rank, bytes] : to) bytes /= count;
}

DryFigures dry_run(const Plan& plan, const Place& place,
                   const std::function<void(DryRank&)>& body) {
  const Clock clock = Clock::modelled(Cluster::load("free"));
  Recorder silent{false};
  Memory memory{DeviceKind::meta};
  Stream compute{clock, silent, 0, DeviceKind::meta};
  RecordingTransport transport{plan, place.rank};
  const Endpoint endpoint{transport, {memory, compute}, plan.collectives};
  std::vector<int> ranks(static_cast<std::size_t>(plan.mesh.ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  Group world{endpoint, ranks, "world", transport.open_channels(Group::channels_taken)};
  AxisGroups groups{endpoint, place, world, AxisGroups::Sharing::none};
  DryRank rank{{plan, place, endpoint, groups}, transport};
  body(rank);
  return std::move(rank.figures_);
}

}  // namespace lockstep
