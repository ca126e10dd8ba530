#pragma once

#include <exception>
#include <memory>
#include <string>

#include "core/comm/rank_context.h"
#include "core/operations/operation_log.h"
#include "core/plan/plan.h"
#include "core/run/launch/gpus.h"
#include "core/run/options/options.h"

namespace lockstep {

/// The part of a program that runs on one device, with its own memory, compute stream, trace, and
/// connections to the other ranks. A lesson's body is called once per rank, with that rank.
struct Rank {
  /// `transport` connects the ranks' hosts. On GPUs, construction is collective: the ranks create
  /// their communicators together. With a book, the rank records its operations there.
  explicit Rank(const Options& options, std::unique_ptr<Transport> transport,
                const GpuPlan& gpus = GpuPlan{}, OperationBook* book = nullptr);
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  operator RankContext() { return {plan, place, endpoint, groups}; }
  /// Returns this rank's group along one axis of the mesh; see AxisGroups.
  Group& group(Axis axis) { return groups[axis]; }

  const int id;  ///< 0 .. count - 1
  const int count;
  Clock clock;
  Recorder trace;
  std::unique_ptr<OperationLog> operations;  ///< null if they are not recorded
  std::unique_ptr<Gpu> gpu;                  ///< null on the CPU
  Stream compute;
  Memory memory;
  Device device;
  std::unique_ptr<Transport> transport;
  const Plan plan;    ///< the run's plan, the same on every rank
  const Place place;  ///< this rank's coordinates and its part of the model
  Endpoint endpoint;
  Group world;        ///< all ranks
  AxisGroups groups;  ///< for the layers that communicate (LayerSite::groups)

  /// Returns why the run failed, given that `error` ended this rank. If the transport already knew
  /// of a failure, that failure is the cause, and `error` is only a consequence.
  std::string cause(const std::exception& error) const;
};

}  // namespace lockstep
