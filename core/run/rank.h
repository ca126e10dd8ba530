#pragma once

#include <memory>

#include "core/comm/group.h"
#include "core/comm/mesh.h"
#include "core/run/gpus.h"
#include "core/run/options.h"

namespace lockstep {

/// One device's worth of a program, and everything that is its own: which rank it is, its memory,
/// its compute stream, its trace, and the others. A lesson's body is called once per rank with it.
struct Rank {
  /// `transport` is between the ranks' hosts. On GPUs all ranks of the run are made at the same
  /// time: their communicators are.
  explicit Rank(const Options& options, std::unique_ptr<Transport> transport,
                const GpuPlan& plan = GpuPlan{});
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  const int id;  ///< 0 .. count - 1
  const int count;
  Clock clock;
  Recorder trace;
  std::unique_ptr<Gpu> gpu;  ///< null on the CPU
  Stream compute;
  Memory memory;
  Device device;
  std::unique_ptr<Transport> transport;
  Endpoint endpoint;
  Mesh mesh;
  Group world;  ///< all ranks
};

}  // namespace lockstep
