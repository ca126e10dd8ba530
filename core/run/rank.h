#pragma once

#include <memory>

#include "core/comm/group.h"
#include "core/comm/mesh.h"
#include "core/run/options.h"

namespace lockstep {

/// One device's worth of a program, and everything that is its own: which rank it is, its memory,
/// its compute stream, its trace, and the others. A lesson's body is called once per rank with it.
struct Rank {
  Rank(const Options& options, std::unique_ptr<Transport> transport);
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  const int id;  ///< 0 .. count - 1
  const int count;
  Clock clock;
  Memory memory;
  Recorder trace;
  Stream compute;
  Device device;
  std::unique_ptr<Transport> transport;
  Endpoint endpoint;
  Mesh mesh;
  Group world;  ///< all ranks
};

}  // namespace lockstep
