#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "lessons/12_expert_parallel/routing.h"

namespace lockstep {

/// One microbatch's routing through one layer on one rank, recorded in its backward pass.
struct RoutedMicrobatch {
  std::vector<std::int32_t> choices;   ///< (N, k); empty on the meta device
  std::vector<std::int64_t> chosen;    ///< choices of this rank's tokens, by expert
  std::vector<std::int64_t> kept;      ///< those accepted
  std::vector<std::int64_t> sent;      ///< rows sent, by rank of the expert-parallel group
  std::vector<std::int64_t> received;  ///< rows received, by rank
};

/// A token for which the ranks and the single-device run chose different experts.
struct Flip {
  int replica = 0;  ///< the data-parallel rank of the token
  int layer = 0;
  std::int64_t call = 0;   ///< the rank's microbatches before this one, over all steps
  std::int64_t token = 0;  ///< in the microbatch
  float distance = 0;      ///< between the probabilities of the two choices, on one device
  bool adopted = false;    ///< a near-tie, for which one device takes the ranks' choice
};

/// Every routing of a run. The ranks write it; their predictions and the report read it, and so
/// does the single-device run, to compare its own choices. Must outlive the models.
class RoutingLog {
 public:
  using Calls = std::deque<RoutedMicrobatch>;

  /// Returns the routings of one layer on one rank, in order. The rank is given by its place on the
  /// data-parallel axis and, if several ranks have the same tokens, its place among these. The
  /// reference stays valid; only one thread may use it at a time.
  Calls& calls(int replica, int layer, int part = 0) {
    const std::lock_guard lock{mutex_};
    return calls_[{replica, layer, part}];
  }
  bool has(int replica, int layer) const {
    const std::lock_guard lock{mutex_};
    const auto found = calls_.find({replica, layer, 0});
    return found != calls_.end() && !found->second.empty();
  }

  /// Sets the number of data-parallel ranks, and of microbatches on each, that one device replays.
  void set_replay(int replicas, int microbatches) {
    replicas_ = replicas;
    microbatches_ = microbatches;
  }
  /// A routing that a rank recorded, with the number of the rank's microbatches before it.
  struct Recorded {
    const RoutedMicrobatch* routing = nullptr;  ///< null if there is none
    int replica = 0;
    std::int64_t call = 0;
  };
  /// Returns the rank's routing for the `call`-th microbatch of one device, which runs all
  /// microbatches of the first rank, then of the second, and so on, in each step.
  Recorded recorded(int layer, std::int64_t call) const {
    const std::int64_t m = microbatches_;
    Recorded recorded{nullptr, static_cast<int>(call / m % replicas_),
                      call / (m * replicas_) * m + call % m};
    const std::lock_guard lock{mutex_};
    const auto found = calls_.find({recorded.replica, layer, 0});
    if (found != calls_.end() && recorded.call < static_cast<std::int64_t>(found->second.size()))
      recorded.routing = &found->second[static_cast<std::size_t>(recorded.call)];
    return recorded;
  }

  /// Adds one device's comparison of its choices for `tokens` tokens, of which the nearest to a tie
  /// was `closest` from it.
  void add(const std::vector<Flip>& flips, std::int64_t tokens, float closest) {
    const std::lock_guard lock{mutex_};
    flips_.insert(flips_.end(), flips.begin(), flips.end());
    compared_ += tokens;
    closest_ = std::min(closest_, closest);
  }
  const std::vector<Flip>& flips() const { return flips_; }
  /// The number of tokens whose choices were compared, over all layers.
  std::int64_t compared() const { return compared_; }
  /// The least difference, over these tokens, between the last probability that was chosen and the
  /// first that was not.
  float closest() const { return closest_; }

 private:
  mutable std::mutex mutex_;
  std::map<std::array<int, 3>, Calls> calls_;  ///< by replica, layer and part
  int replicas_ = 1, microbatches_ = 1;
  std::vector<Flip> flips_;
  std::int64_t compared_ = 0;
  float closest_ = 1;
};

}  // namespace lockstep
