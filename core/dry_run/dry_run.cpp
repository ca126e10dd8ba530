#include "core/dry_run/dry_run.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
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
      batch_without_tokens(plan.samples(place, microbatches), plan.model().sequence, plan.seed);

  const BytesSent before = transport_.bytes_sent();
  transport_.sent_to().clear();
  device().memory.reset_peak();
  OperationLog* const log = device().compute.operations();
  if (log != nullptr) log->end_section(RunOperations::Section::no_step);
  for (int i = 0; i < count; ++i, ++steps_) {
    step(batch);
    if (log != nullptr) log->end_section(steps_);
  }
  figures_ = {.bytes_sent = transport_.bytes_sent() - before,
              .peak = device().memory.peak(),
              .sent_to = std::move(transport_.sent_to()),
              .peak_total = device().memory.peak_total()};
  for (const Operation operation : all_operations) figures_.bytes_sent[operation] /= count;
  for (auto& [group, to] : figures_.sent_to)
    for (auto& [rank, bytes] : to) bytes /= count;
}

/// The parts of one rank without peers. `log` records its operations, and may be null.
class DryRun {
 public:
  DryRun(const Plan& plan, const Place& place, OperationLog* log, AxisGroups::Sharing sharing)
      : clock_(Clock::modelled(cluster_of(plan))),
        compute_(clock_, silent_, 0, DeviceKind::meta, log),
        transport_(plan, place.rank),
        endpoint_{transport_, {memory_, compute_}, plan.collectives},
        world_(endpoint_, all_ranks(plan), "world",
               transport_.open_channels(Group::channels_taken)),
        groups_(endpoint_, place, world_, sharing),
        rank_({plan, place, endpoint_, groups_}, transport_) {}

  DryFigures run(const std::function<void(DryRank&)>& body) {
    body(rank_);
    return std::move(rank_.figures_);
  }

 private:
  static std::vector<int> all_ranks(const Plan& plan) {
    std::vector<int> ranks(static_cast<std::size_t>(plan.mesh.ranks()));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }

  /// Times do not matter, so kernels take none, but the groups' choice of algorithms does.
  static Cluster cluster_of(const Plan& plan) {
    Cluster cluster = plan.modelled ? plan.modelled->cluster : Cluster::load("free");
    cluster.flops = cluster.memory_bandwidth = std::numeric_limits<double>::infinity();
    cluster.launch_seconds = 0;
    cluster.rates.reset();
    if (!plan.on_meta) cluster.in_switch.reset();
    return cluster;
  }

  const Clock clock_;
  Recorder silent_{false};
  Memory memory_{DeviceKind::meta};
  Stream compute_;
  RecordingTransport transport_;
  const Endpoint endpoint_;
  Group world_;
  AxisGroups groups_;
  DryRank rank_;
};

DryFigures dry_run(const Plan& plan, const Place& place,
                   const std::function<void(DryRank&)>& body) {
  return DryRun{plan, place, nullptr, AxisGroups::Sharing::none}.run(body);
}

namespace {

/// Moves the operations of rank `from` to its representative, and shifts the groups of `from`
/// accordingly.
void move_to_representative(RunOperations& run, int from) {
  const int to = run.folding.representative(from);
  RunOperations::RankOperations moved =
      std::exchange(run.ranks[static_cast<std::size_t>(from)], {});
  for (std::uint32_t& index : moved.groups) {
    RunOperations::GroupMembers group = run.groups[index];
    for (int& rank : group.ranks) rank = run.folding.seen_from(from, rank);
    // The shift may rotate the members, but a group lists them in ascending order.
    std::ranges::sort(group.ranks);
    const auto found = std::ranges::find(run.groups, group);
    index = static_cast<std::uint32_t>(found - run.groups.begin());
    if (found == run.groups.end()) run.groups.push_back(std::move(group));
  }
  run.ranks[static_cast<std::size_t>(to)] = std::move(moved);
}

}  // namespace

RunOperations record_dry_run(const Plan& plan, const std::function<void(DryRank&)>& body,
                             const Folding& folding, const std::function<int(int)>& runs,
                             std::map<int, DryFigures>* figures) {
  OperationBook book{plan.mesh.ranks()};
  std::vector<int> elsewhere;  // ranks that run in place of their representative
  for (int id = 0; id < plan.mesh.ranks(); ++id) {
    if (!folding.keeps(id)) continue;
    const int rank = runs ? runs(id) : id;
    if (rank != id) elsewhere.push_back(rank);
    OperationLog log{book, rank};
    const Place place = plan.place(rank);
    DryFigures found = DryRun{plan, place, &log, AxisGroups::Sharing::same_ranks}.run(body);
    if (figures != nullptr) figures->emplace(rank, std::move(found));
  }
  RunOperations operations = book.take();
  operations.modelled = *plan.modelled;
  operations.folding = folding;
  for (const int rank : elsewhere) move_to_representative(operations, rank);
  return operations;
}

}  // namespace lockstep
