#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/model/adamw.h"
#include "core/model/data.h"
#include "core/model/parameter.h"

namespace lockstep {

// How a training goes on after a rank has died:
//
//   coordinator.h         decides who takes part in a step, and whether it counts
//   lighthouse.h          ... for ranks that are threads and may die
//   timetable.h           ... if ranks leave and return as planned
//   surviving_replica.h   along dp: every replica has the whole state, so the others go on
//   surviving_pipeline.h  along pp: the others load the dead stage's state from a neighbour's
//                         memory (peer_checkpoint.h) and divide the layers among themselves
//   faults.h              which rank dies when (fault_injection.h makes it so)

/// What the ranks of a run agree on.
struct SurvivalSettings {
  std::int64_t bucket_bytes = 0;     ///< of gradients, along dp
  int interval = 1;                  ///< steps from one checkpoint to the next
  std::string save{};                ///< the folder of checkpoints on disk, or none
  int trained_steps = 0;             ///< of the checkpoint that the run has loaded
  std::int64_t optimizer_steps = 0;  ///< the same, without steps that loss scaling has skipped
};

/// A rank of a training that goes on when other ranks die.
class Survivor {
 public:
  virtual ~Survivor() = default;
  /// Loads parameters and moments at the start of the run, or does nothing.
  using Load = std::function<void(const std::vector<Parameter*>&, AdamW&)>;
  /// Connects the ranks that start together.
  virtual void join(int step, const Load& load) = 0;
  /// Trains on one batch with the ranks that are there. Returns the loss, or this rank's share of
  /// it, on ranks that know it.
  virtual std::optional<double> step(int step, Batch& batch) = 0;
  /// Waits for what is still in flight after the last step.
  virtual void finish() {}
  /// What this rank holds, and the optimizer that updates it.
  virtual const std::vector<Parameter*>& parameters() const = 0;
  virtual const AdamW& optimizer() const = 0;
};

}  // namespace lockstep
