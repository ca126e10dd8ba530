#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/model/builder.h"
#include "core/plan/mesh.h"
#include "lessons/12_expert_parallel/routing.h"

namespace lockstep {

/// One microbatch's routing through one layer on one rank.
struct RoutedMicrobatch {
  /// (N, k); in a log, empty on the meta device, and if no single-device run replays them
  std::vector<std::int32_t> choices;
  std::vector<std::int64_t> chosen;    ///< choices of this rank's tokens, by expert
  std::vector<std::int64_t> kept;      ///< those accepted
  std::vector<std::int64_t> sent;      ///< rows sent, by rank of the expert-parallel group
  std::vector<std::int64_t> received;  ///< rows received, by rank
};

/// Watches the router of one layer.
class RouterWatch {
 public:
  virtual ~RouterWatch() = default;

  /// Called in the forward pass, but not on the meta device, with the experts that a microbatch's
  /// tokens chose: `choices` (N, k), the probabilities (N, E), and for each token the gap between
  /// the last chosen probability and the next. Returns whether it has changed a choice.
  virtual bool chosen(std::vector<std::int32_t>& choices, View probabilities, View gaps) = 0;

  /// Called once per microbatch, at the end of backward_input.
  virtual void routed(RoutedMicrobatch microbatch) = 0;
};

/// Every routing of a run. experiment/routing_record.h implements it. Must outlive the models.
class RoutingLog {
 public:
  using Calls = std::deque<RoutedMicrobatch>;
  virtual ~RoutingLog() = default;

  /// Returns a watch of the layer at `site`. On one device, it watches the tokens of this rank of
  /// the cp axis.
  virtual std::unique_ptr<RouterWatch> watch(const LayerSite& site, const MixtureOfExperts& moe,
                                             int context_rank = 0) = 0;

  /// Returns the routings of one layer on one rank, in order. The rank is given by its replica
  /// (replica_of) and, if several ranks process the same tokens, its place among these. The
  /// reference stays valid; only one thread may use it at a time.
  virtual Calls& calls(int replica, int layer, int part = 0) = 0;
};

/// Returns the number under which a log stores a rank's tokens: the ranks of a sequence are
/// neighbours.
inline int replica_of(const Mesh& mesh, int rank) {
  return mesh.coordinate(rank, Axis::dp) * mesh.size(Axis::cp) + mesh.coordinate(rank, Axis::cp);
}

}  // namespace lockstep
