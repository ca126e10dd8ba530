#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/plan/mesh.h"
#include "kernels/view.h"
#include "lessons/12_expert_parallel/routing.h"

namespace lockstep {

/// One microbatch's routing through one layer on one rank, recorded in its backward pass.
struct RoutedMicrobatch {
  /// (N, k); empty on the meta device, and if no single-device run replays them
  std::vector<std::int32_t> choices;
  std::vector<std::int64_t> chosen;    ///< choices of this rank's tokens, by expert
  std::vector<std::int64_t> kept;      ///< those accepted
  std::vector<std::int64_t> sent;      ///< rows sent, by rank of the expert-parallel group
  std::vector<std::int64_t> received;  ///< rows received, by rank
};

/// A token for which the ranks and the single-device run chose different experts.
struct Flip {
  int replica = 0;  ///< of the token's rank (replica_of)
  int layer = 0;
  std::int64_t call = 0;   ///< the rank's microbatches before this one, over all steps
  std::int64_t token = 0;  ///< in the microbatch
  float distance = 0;      ///< between the probabilities of the two choices, on one device
  bool adopted = false;    ///< a near-tie, for which one device takes the ranks' choice
};

/// The largest difference between two probabilities for which rounding may decide between their
/// experts. In f32, it is as large as the tolerance for parameters. In bf16, in runs of 30 to 300
/// steps that agreed with one device, rounding decided at differences of up to 2.2e-3.
inline float near_tie(DType dtype) {
  return is_narrow(dtype) ? 1e-2F : 1e-4F;
}

/// Returns the number by which a log knows a rank's tokens: the ranks of a sequence are neighbours.
inline int replica_of(const Mesh& mesh, int rank) {
  return mesh.coordinate(rank, Axis::dp) * mesh.size(Axis::cp) + mesh.coordinate(rank, Axis::cp);
}

/// Every routing of a run. The ranks write it; their predictions and the report read it, and so
/// does the single-device run, to compare its own choices. Must outlive the models.
///
/// A log grows with the run, by 2 (E + ep) counts per layer and microbatch, and, for the comparison
/// with one device, by the N k choices of its tokens: at the defaults, 3 kB each.
class RoutingLog {
 public:
  using Calls = std::deque<RoutedMicrobatch>;

  /// Returns the routings of one layer on one rank, in order. The rank is given by its replica
  /// (replica_of) and, if several ranks have the same tokens, its place among these. The reference
  /// stays valid; only one thread may use it at a time.
  Calls& calls(int replica, int layer, int part = 0) {
    const std::lock_guard lock{mutex_};
    return calls_[{replica, layer, part}];
  }
  bool has(int replica, int layer) const {
    const std::lock_guard lock{mutex_};
    const auto found = calls_.find({replica, layer, 0});
    return found != calls_.end() && !found->second.empty();
  }

  /// Call this before the run if a single-device run will replay it, with the number of
  /// data-parallel ranks, and of microbatches on each. `context_ranks` share the tokens of each
  /// microbatch.
  void set_replay(int replicas, int microbatches, int context_ranks = 1) {
    replicas_ = replicas;
    microbatches_ = microbatches;
    context_ranks_ = context_ranks;
    keeps_choices_ = replays_ = true;
  }
  /// Ends the comparison with one device: later models, such as the one that generates text, have
  /// other tokens.
  void end_replay() { replays_ = false; }
  /// Returns whether the ranks record the choices of each token.
  bool keeps_choices() const { return keeps_choices_; }
  /// A routing that a rank recorded, with the number of the rank's microbatches before it.
  struct Recorded {
    const RoutedMicrobatch* routing = nullptr;  ///< null if there is none
    int replica = 0;
    std::int64_t call = 0;
  };
  /// Returns the rank's routing for the `call`-th microbatch of one device, which runs all
  /// microbatches of the first rank, then of the second, and so on, in each step. `context_rank`
  /// has some of its tokens. None without a replay, and after its end.
  Recorded recorded(int layer, std::int64_t call, int context_rank = 0) const {
    const std::int64_t m = microbatches_;
    Recorded recorded{nullptr,
                      static_cast<int>(call / m % replicas_) * context_ranks_ + context_rank,
                      call / (m * replicas_) * m + call % m};
    if (!replays_) return recorded;
    const std::lock_guard lock{mutex_};
    const auto found = calls_.find({recorded.replica, layer, 0});
    if (found != calls_.end() && recorded.call < static_cast<std::int64_t>(found->second.size()))
      recorded.routing = &found->second[static_cast<std::size_t>(recorded.call)];
    return recorded;
  }

  /// Adds one device's comparison of its choices for `tokens` tokens; `closest` is the smallest
  /// gap, over these tokens, between the last chosen probability and the next.
  void add(const std::vector<Flip>& flips, std::int64_t tokens, float closest) {
    const std::lock_guard lock{mutex_};
    flips_.insert(flips_.end(), flips.begin(), flips.end());
    compared_ += tokens;
    closest_ = std::min(closest_, closest);
  }
  const std::vector<Flip>& flips() const { return flips_; }
  /// The number of choices that were compared: one per token, layer and step.
  std::int64_t compared() const { return compared_; }
  /// The smallest gap, over these choices, between the last chosen probability and the next; 1 if
  /// the tokens chose all experts.
  float closest() const { return closest_; }

 private:
  mutable std::mutex mutex_;
  std::map<std::array<int, 3>, Calls> calls_;  ///< by replica, layer and part
  int replicas_ = 1, microbatches_ = 1, context_ranks_ = 1;
  bool keeps_choices_ = false, replays_ = false;
  std::vector<Flip> flips_;
  std::int64_t compared_ = 0;
  float closest_ = 1;
};

}  // namespace lockstep
