#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "core/base/memory_use.h"
#include "core/comm/rank_context.h"
#include "core/model/data.h"
#include "core/operations/run_operations.h"
#include "core/plan/prediction.h"

namespace lockstep {

/// Bytes by name of the group, then by receiver (a rank of the run). Messages between stages belong
/// to no group ("").
using SentTo = std::map<std::string, std::map<int, std::int64_t>>;

/// The figures of the steps of a dry run.
struct DryFigures {
  BytesSent bytes_sent;         ///< per step; the mean, if the steps differ
  MemoryUse peak;               ///< of all steps
  SentTo sent_to{};             ///< as bytes_sent, by group and receiver
  std::int64_t peak_total = 0;  ///< the peak of the total over all categories

  /// Sets the prediction's bytes and peaks, and by_dry_run.
  void fill(Predicted& predicted) const;
};

class RecordingTransport;

/// A rank on the meta device without peers: its sends are counted but reach no other rank, and its
/// receives complete at once. Its figures nevertheless equal those of a rank of the run, because
/// neither allocations nor sizes of messages depend on the data that other ranks send. (Experts are
/// an exception: the body must know the run's routing.)
///
/// Unlike on a rank of the run, axes with the same ranks do not share a group, so that `sent_to`
/// distinguishes them. The clock is modelled, but its times are meaningless; nothing is traced.
class DryRank : public RankContext {
 public:
  /// Runs `count` steps. Each call of `step` receives this rank's batch of `microbatches`, which
  /// has shapes but no contents. As in a phase of the run, the figures cover only the steps, but a
  /// peak includes the memory already in use when they begin.
  void run(int microbatches, const std::function<void(const Batch& mine)>& step, int count = 1);

 private:
  friend class DryRun;
  DryRank(RankContext context, RecordingTransport& transport)
      : RankContext(context), transport_(transport) {}

  RecordingTransport& transport_;
  DryFigures figures_;
  int steps_ = 0;  ///< so far
};

/// Runs `body` as one rank of `plan`, on the meta device and without peers, and returns the bytes
/// that it sends and the memory that it uses. The body builds what the lesson builds on each rank,
/// and calls DryRank::run() once, for the step. The figures are therefore observed, not derived: if
/// the body uses the run's own classes, they are the figures of the code that the run will execute.
/// Does not affect the run: it uses a separate memory, trace and counters.
///
///   dry_run(plan, place, [&](DryRank& rank) {
///     Training training{rank, chosen};
///     rank.run(m, [&](const Batch& mine) { training.step(mine); });
///   });
DryFigures dry_run(const Plan& plan, const Place& place, const std::function<void(DryRank&)>& body);

/// Runs `body` as each rank of the plan in turn, and returns the operations that the ranks of a run
/// would record on the plan's modelled clock. The body may call DryRank::run() once per phase; step
/// numbers continue from one call to the next. As in a run, axes with the same ranks share a group.
///
/// If ranks are folded, only one of several equal ranks runs; the caller guarantees that the others
/// would do the same. `runs`, if given, returns the rank that runs in place of a representative, or
/// the representative itself. `figures`, if given, receives the figures of the ranks that run, by
/// rank.
RunOperations record_dry_run(const Plan& plan, const std::function<void(DryRank&)>& body,
                             const Folding& folding = {},
                             const std::function<int(int representative)>& runs = {},
                             std::map<int, DryFigures>* figures = nullptr);

}  // namespace lockstep
