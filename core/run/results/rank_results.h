#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/memory_use.h"
#include "core/plan/prediction.h"
#include "core/plan/slice.h"
#include "core/run/results/process_memory.h"
#include "core/time/time.h"

namespace lockstep {

/// One rank's results for a phase.
struct PhaseResults {
  Phase phase;
  Predicted predicted;
  BytesSent bytes_sent;             ///< over the phase
  std::int64_t overhead_bytes = 0;  ///< over the phase; not in `bytes_sent` (see Traffic)
  Picoseconds last_step = 0;        ///< duration of the phase's last step on the run's clock
  MemoryUse peak;
  std::int64_t peak_total = 0;  ///< bytes, over all categories together
};

/// A parameter's final values, or those of a slice of it.
struct NamedValues {
  std::string name;
  int order = 0;              ///< in the whole model
  std::vector<float> values;  ///< (slice.local())
  Slice slice{};              ///< default: `values` is the whole tensor
};

/// Measurements of a rank's GPU; empty on the CPU.
struct RankGpu {
  std::string address;          ///< empty: no GPU
  std::int64_t in_use = 0;      ///< bytes that all programs hold on it when training ends
  std::int64_t ours = 0;        ///< the part of `in_use` that this rank's allocator holds
  int queues = 0;               ///< the largest number that this rank used at the same time
  Picoseconds late = 0;         ///< largest error of its spans' times; see GpuTimeline
  Picoseconds least_delay = 0;  ///< the smallest delay between the launch and the start of a kernel
  int communicators = 0;        ///< of NCCL, of this rank
  std::int64_t communicator_bytes = 0;  ///< that the GPU's memory in use grew by as they were made
};

/// One rank's results. to_bytes() encodes them for rank 0, which collects them.
struct RankResults {
  int rank = 0;
  std::string host;
  std::vector<PhaseResults> phases;
  std::vector<std::pair<int, double>> losses;  ///< (step, loss), if this rank knows them
  std::vector<NamedValues> parameters;
  double train_seconds = 0;  ///< wall time from the start of the first step to the end of the last
  RankGpu gpu;
  RankProcess process;  ///< only with --device cpu

  std::string to_bytes() const;
  static RankResults from_bytes(const std::string& bytes);
};

/// Losses by step, summed over the ranks that know a share of the loss. Throws RunError if a step
/// has none.
std::vector<double> collect_losses(const std::vector<RankResults>& ranks, int steps);
/// All parameters, each one once, in the model's order, assembled from all ranks' slices. Throws
/// RunError if two ranks hold different values for an element (replicas must be bitwise identical),
/// or if no rank holds a value for it.
std::vector<NamedValues> collect_parameters(const std::vector<RankResults>& ranks);

/// The trace's description of a phase, as JSON: the hello's `predicted` for the first phase, an
/// event for each later one.
std::string predicted_json(const Phase& phase, const Predicted& predicted);

}  // namespace lockstep
