#pragma once

#include <array>
#include <exception>
#include <memory>
#include <string>

#include "core/comm/group.h"
#include "core/plan/plan.h"
#include "core/run/launch/gpus.h"
#include "core/run/options/options.h"

namespace lockstep {

/// One device's worth of a program, and everything that is its own: which rank it is, its memory,
/// its compute stream, its trace, and the others. A lesson's body is called once per rank with it.
struct Rank {
  /// `transport` is between the ranks' hosts. On GPUs all ranks of the run are made at the same
  /// time: their communicators are.
  explicit Rank(const Options& options, std::unique_ptr<Transport> transport,
                const GpuPlan& gpus = GpuPlan{});
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  /// The ranks that differ from this one on one axis only, in order of their place on it: the
  /// replicas of this rank along dp, the stages of its pipeline along pp. Made at its first use,
  /// which all members come to at the same point of the program.
  Group& group(Axis axis);

  const int id;  ///< 0 .. count - 1
  const int count;
  Clock clock;
  Recorder trace;
  std::unique_ptr<Gpu> gpu;  ///< null on the CPU
  Stream compute;
  Memory memory;
  Device device;
  std::unique_ptr<Transport> transport;
  const Plan plan;    ///< of the run, the same on every rank
  const Place place;  ///< what this rank is and holds in it
  Endpoint endpoint;
  Group world;  ///< all ranks

  /// Why the run failed, after `error` ended this rank. If the transport already knew of a failure,
  /// then that is the cause, and `error` only a consequence.
  std::string cause(const std::exception& error) const;

 private:
  int axis_channels_;  ///< the first of the channels that the axes' groups take
  std::array<std::unique_ptr<Group>, axes_with_experts> axis_groups_;
};

}  // namespace lockstep
