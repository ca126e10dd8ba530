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

/// One device's worth of a program, with its own memory, compute stream, trace, and connections to
/// the other ranks. A lesson's body is called once per rank, with that rank.
struct Rank {
  /// `transport` connects the ranks' hosts. On GPUs, construction is collective: the ranks create
  /// their communicators together.
  explicit Rank(const Options& options, std::unique_ptr<Transport> transport,
                const GpuPlan& gpus = GpuPlan{});
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  /// The group of ranks that differ from this one on one axis only, in order of their coordinate on
  /// that axis: for example, this rank's replicas (dp), or the stages of its pipeline (pp). The
  /// first call creates the group; all members must make this call at the same point in the
  /// program.
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
  const Plan plan;    ///< the run's plan, the same on every rank
  const Place place;  ///< this rank's coordinates and its part of the model
  Endpoint endpoint;
  Group world;  ///< all ranks

  /// Returns why the run failed, given that `error` ended this rank. If the transport already knew
  /// of a failure, that failure is the cause, and `error` is only a consequence.
  std::string cause(const std::exception& error) const;

 private:
  int axis_channels_;  ///< the first channel of the axes' groups
  std::array<std::unique_ptr<Group>, axes_with_experts> axis_groups_;
};

}  // namespace lockstep
