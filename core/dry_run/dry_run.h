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

/// A rank on the meta device that has no peers: what it sends is counted and arrives nowhere, and
/// what it receives is there at once. Its figures are nevertheless those of a rank of the run,
/// because neither allocations nor sizes of messages depend on what other ranks send. (Experts are
/// the exception: there, the body must know the routing of the run.)
///
/// Unlike on a rank of the run, axes with the same ranks have a group each, so that `sent_to` tells
/// them apart. The clock is modelled and its times mean nothing; nothing is traced.
class DryRank : public RankContext {
 public:
  /// Runs `count` steps. Each call of `step` receives this rank's batch of `microbatches`, which
  /// has a shape and no contents. As in a phase of the run, only what happens in the steps counts,
  /// but a peak includes the memory that is held when they begin.
  void run(int microbatches, const std::function<void(const Batch& mine)>& step, int count = 1);

 private:
  friend class DryRun;
  DryRank(RankContext context, RecordingTransport& transport)
      : RankContext(context), transport_(transport) {}

  RecordingTransport& transport_;
  DryFigures figures_;
  int steps_ = 0;  ///< so far
};

/// Runs `body` as one rank of `plan`, on the meta device and without peers, and returns what it
/// sends and holds. The body builds what the lesson builds on each rank, and calls DryRank::run()
/// once, for the step. So the figures are not derived: if the body uses the run's own classes, they
/// are those of the very code that the run will execute. Leaves no mark on the run: it has a
/// memory, a trace and counters of its own.
///
///   dry_run(plan, place, [&](DryRank& rank) {
///     Training training{rank, chosen};
///     rank.run(m, [&](const Batch& mine) { training.step(mine); });
///   });
DryFigures dry_run(const Plan& plan, const Place& place, const std::function<void(DryRank&)>& body);

/// Runs `body` as each rank of the plan in turn, and returns the operations that the ranks of a run
/// would record on the plan's modelled clock. The body may call DryRank::run() once per phase; the
/// steps are counted on. As in a run, axes with the same ranks share a group.
///
/// If ranks are folded, only one of several equal ranks runs: it is for the caller to know that the
/// others do the same. `runs`, if given, returns which of the ranks for which a representative
/// stands runs, if not itself. `figures`, if given, receives those of the ranks that run, by rank.
RunOperations record_dry_run(const Plan& plan, const std::function<void(DryRank&)>& body,
                             const Folding& folding = {},
                             const std::function<int(int representative)>& runs = {},
                             std::map<int, DryFigures>* figures = nullptr);

}  // namespace lockstep
