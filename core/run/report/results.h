#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/memory_use.h"
#include "core/plan/prediction.h"
#include "core/plan/slice.h"
#include "core/run/report/process_memory.h"
#include "core/time/time.h"

namespace lockstep {

/// One phase as one rank saw it.
struct PhaseRecord {
  Phase phase;
  Predicted predicted;
  BytesSent bytes_sent;             ///< over the phase
  std::int64_t overhead_bytes = 0;  ///< over the phase, in addition (Traffic)
  Picoseconds last_step = 0;        ///< what the phase's last step took by the run's clock
  MemoryUse peak;
  std::int64_t peak_total = 0;  ///< bytes of all categories together
};

/// A parameter's final values, or those of a slice of it.
struct NamedValues {
  std::string name;
  int order = 0;              ///< in the whole model
  std::vector<float> values;  ///< (slice.local())
  Slice slice{};              ///< default: `values` are the whole
};

/// What a rank's GPU says of itself; of the CPU nothing.
struct GpuRecord {
  std::string address;          ///< empty: no GPU
  std::int64_t in_use = 0;      ///< bytes that all its users hold, when training ends
  std::int64_t ours = 0;        ///< of these, by this rank's allocator
  Picoseconds late = 0;         ///< by so much its spans may be shown late; see GpuTimeline
  Picoseconds least_delay = 0;  ///< between a launch and what was launched, at the least
};

/// What one rank has to tell when it is done. Travels to rank 0 as bytes.
struct RankRecord {
  int rank = 0;
  std::string host;
  std::vector<PhaseRecord> phases;
  std::vector<std::pair<int, double>> losses;  ///< step and loss, where this rank knows them
  std::vector<NamedValues> parameters;
  std::vector<NamedValues> moments;  ///< of the optimizer, where they are to be saved
  double train_seconds = 0;  ///< wall time from the first step's begin to the last one's end
  GpuRecord gpu;
  ProcessRecord process;  ///< on the CPU

  std::string to_bytes() const;
  static RankRecord from_bytes(const std::string& bytes);
};

/// Losses by step: the sum over the ranks that know a share of it. Throws RunError where a step
/// has none.
std::vector<double> collect_losses(const std::vector<RankRecord>& ranks, int steps);
/// Each parameter once, whole, in the model's order, put together from the slices of all ranks.
/// Throws RunError if two ranks have different values of the same element (replicas must be the
/// same to the bit), and if no rank has an element.
std::vector<NamedValues> collect_parameters(const std::vector<RankRecord>& ranks);
/// The same of the optimizer's moments.
std::vector<NamedValues> collect_moments(const std::vector<RankRecord>& ranks);

/// What a trace says of a phase: JSON for the hello's `predicted`, and for the events that follow
/// it.
std::string predicted_json(const Phase& phase, const Predicted& predicted);

}  // namespace lockstep
