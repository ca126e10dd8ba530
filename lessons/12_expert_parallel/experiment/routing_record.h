#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/model/builder.h"
#include "lessons/12_expert_parallel/experts.h"
#include "lessons/12_expert_parallel/routing_log.h"

namespace lockstep {

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

/// The routings of a run. The ranks write them; their predictions and the report read them, and so
/// does the single-device run, to compare its own choices.
///
/// A record grows with the run, by 2 (E + ep) counts per layer and microbatch, and, for the
/// comparison with one device, by the N k choices of its tokens: at the defaults, 3 kB each.
class RoutingRecord : public RoutingLog {
 public:
  /// On a rank, the watch records; on one device, it replays.
  std::unique_ptr<RouterWatch> watch(const LayerSite& site, const MixtureOfExperts& moe,
                                     int context_rank = 0) override;

  Calls& calls(int replica, int layer, int part = 0) override {
    const std::lock_guard lock{mutex_};
    return calls_[{replica, layer, part}];
  }
  bool has(int replica, int layer) const {
    const std::lock_guard lock{mutex_};
    const auto found = calls_.find({replica, layer, 0});
    return found != calls_.end() && !found->second.empty();
  }

  /// Call this before a run that a single-device run will replay. `replicas` is the number of
  /// data-parallel ranks, and `microbatches` the number of microbatches on each. `context_ranks`
  /// ranks share the tokens of each microbatch. With `whole_batch`, the single-device run takes
  /// each batch in one microbatch.
  void set_replay(int replicas, int microbatches, int context_ranks = 1, bool whole_batch = false) {
    replicas_ = replicas;
    microbatches_ = microbatches;
    context_ranks_ = context_ranks;
    parts_ = whole_batch ? replicas * microbatches : 1;
    keeps_choices_ = replays_ = true;
  }
  /// Ends the comparison with one device: later models, such as the one that generates text,
  /// process other tokens.
  void end_replay() { replays_ = false; }
  /// Returns whether the ranks record the choices of each token.
  bool keeps_choices() const { return keeps_choices_; }

  /// Call this before the run to follow a token of rank 0's microbatches, given by its number.
  void follow(std::int64_t token) {
    followed_ = token;
    keeps_choices_ = true;
  }
  /// The number of the ranks' microbatches in a microbatch of the single-device run.
  std::int64_t parts() const { return parts_; }
  /// The number of the token that the record follows; -1 if there is none.
  std::int64_t followed() const { return followed_; }
  /// The followed token's probabilities of all experts of a layer, in the last microbatch so far.
  /// Only rank 0 may write them.
  std::vector<float>& probabilities(int layer) {
    const std::lock_guard lock{mutex_};
    return probabilities_[layer];
  }
  /// A routing that a rank recorded, with the number of the rank's microbatches before it.
  struct Recorded {
    const RoutedMicrobatch* routing = nullptr;  ///< null if there is none
    int replica = 0;
    std::int64_t call = 0;
  };
  /// Returns the routing that a rank recorded for microbatch `call` of all ranks. In each step, the
  /// single-device run takes all microbatches of the first data-parallel rank, then those of the
  /// second, and so on. `context_rank` selects one of the ranks that share the microbatch's tokens.
  /// None without a replay, and after its end.
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
  int replicas_ = 1, microbatches_ = 1, context_ranks_ = 1, parts_ = 1;
  bool keeps_choices_ = false, replays_ = false;
  std::vector<Flip> flips_;
  std::int64_t compared_ = 0;
  float closest_ = 1;
  std::int64_t followed_ = -1;
  std::map<int, std::vector<float>> probabilities_;  ///< by layer
};

/// Records the routings of one layer on a rank.
class RecordedRouter : public RouterWatch {
 public:
  RecordedRouter(const LayerSite& site, const MixtureOfExperts& moe, RoutingRecord& record)
      : compute_(site.device.compute),
        layer_(site.layer),
        drops_(moe.capacity_factor > 0),
        record_(record),
        traces_(place(site, Axis::tp) == 0) {
    const Group* context = site.group(Axis::cp);
    const int context_ranks = context != nullptr ? context->size() : 1;
    const int replica = place(site, Axis::dp) * context_ranks + place(site, Axis::cp);
    calls_ = &record.calls(replica, site.layer, place(site, Axis::tp));
    if (record.followed() >= 0 && replica == 0 && traces_)
      probabilities_ = &record.probabilities(site.layer);
  }

  bool chosen(std::vector<std::int32_t>&, View probabilities, View) override {
    if (probabilities_ == nullptr) return false;
    probabilities_->resize(static_cast<std::size_t>(probabilities.shape.last()));
    compute_.read(rows_of(probabilities, record_.followed(), 1), probabilities_->data());
    return false;
  }
  void routed(RoutedMicrobatch microbatch) override {
    if (traces_) trace(microbatch);
    if (!record_.keeps_choices()) microbatch.choices = {};
    calls_->push_back(std::move(microbatch));
  }

 private:
  static int place(const LayerSite& site, Axis axis) {
    const Group* ranks = site.group(axis);
    return ranks != nullptr ? ranks->rank() : 0;
  }

  /// Writes the numbers of tokens to the trace.
  void trace(const RoutedMicrobatch& routed) const {
    if (!compute_.trace().on()) return;
    std::vector<std::pair<std::string, std::int64_t>> tokens;
    for (std::size_t expert = 0; expert < routed.kept.size(); ++expert) {
      tokens.emplace_back(fmt::format("expert {}", expert), routed.kept[expert]);
      if (drops_)
        tokens.emplace_back(fmt::format("expert {} dropped", expert),
                            routed.chosen[expert] - routed.kept[expert]);
    }
    compute_.trace().counter("tokens per expert", layer_, tokens, compute_.now());
  }

  Stream& compute_;
  int layer_;
  bool drops_;
  const RoutingRecord& record_;
  bool traces_;  ///< whether this rank counts its tokens (of the ranks of tp, one does)
  RoutingLog::Calls* calls_ = nullptr;
  std::vector<float>* probabilities_ = nullptr;  ///< null unless this rank has the followed token
};

/// A choice of experts is not continuous: if two probabilities are nearly equal, a rounding error
/// decides. On one device, finds the tokens for which the ranks chose other experts. In a near-tie,
/// takes the ranks' choice, so that the comparison of the runs stays meaningful. Any other
/// difference is an error.
class ReplayedRouter : public RouterWatch {
 public:
  ReplayedRouter(const LayerSite& site, RoutingRecord& record, int context_rank)
      : compute_(site.device.compute),
        layer_(site.layer),
        near_(near_tie(site.config.dtype)),
        record_(record),
        context_rank_(context_rank) {}

  bool chosen(std::vector<std::int32_t>& choices, View probabilities, View gaps) override {
    flips_.clear();
    compared_ = 0;
    const std::int64_t parts = record_.parts();
    std::vector<RoutingRecord::Recorded> recorded;  // by part of this microbatch
    for (std::int64_t part = 0; part < parts; ++part) {
      recorded.push_back(record_.recorded(layer_, microbatches_ * parts + part, context_rank_));
      const RoutedMicrobatch* const routing = recorded.back().routing;
      if (routing == nullptr ||
          routing->choices.size() * static_cast<std::size_t>(parts) != choices.size())
        return false;
    }
    std::vector<float> from_ties(static_cast<std::size_t>(gaps.elements()));
    compute_.read(gaps, from_ties.data());
    compared_ = gaps.elements();
    closest_ = std::ranges::min(from_ties);
    const std::int64_t tokens = gaps.elements(), experts = probabilities.shape.last();
    const std::int64_t k = static_cast<std::int64_t>(choices.size()) / tokens;
    std::vector<float> on_host;  // the probabilities
    for (std::int64_t token = 0; token < tokens; ++token) {
      const std::span mine{choices.data() + token * k, static_cast<std::size_t>(k)};
      const RoutingRecord::Recorded& theirs =
          recorded[static_cast<std::size_t>(token * parts / tokens)];
      const std::int64_t of_part = token % (tokens / parts);
      const std::span other{theirs.routing->choices.data() + of_part * k, mine.size()};
      if (std::ranges::is_permutation(mine, other)) continue;
      if (on_host.empty()) {
        on_host.resize(static_cast<std::size_t>(probabilities.elements()));
        compute_.read(probabilities, on_host.data());
      }
      float distance = 0;  // from the best of mine that they lack to the worst of theirs
      for (const std::int32_t a : mine)
        for (const std::int32_t b : other)
          if (std::ranges::count(other, a) == 0 && std::ranges::count(mine, b) == 0) {
            const float* const p = on_host.data() + token * experts;
            distance = std::max(distance, p[a] - p[b]);
          }
      flips_.push_back({theirs.replica, layer_, theirs.call, of_part, distance, distance <= near_});
      if (distance <= near_) std::ranges::copy(other, mine.begin());
    }
    return std::ranges::any_of(flips_, &Flip::adopted);
  }

  void routed(RoutedMicrobatch) override {
    if (compared_ > 0) record_.add(flips_, compared_, closest_);
    ++microbatches_;
  }

 private:
  Stream& compute_;
  int layer_;
  float near_;
  RoutingRecord& record_;
  int context_rank_;
  std::int64_t microbatches_ = 0;  ///< backward passes done
  // The microbatch between its forward and its backward pass:
  std::vector<Flip> flips_;
  std::int64_t compared_ = 0;  ///< tokens whose choices were compared with a rank's
  float closest_ = 1;          ///< over these, the smallest gap
};

inline std::unique_ptr<RouterWatch> RoutingRecord::watch(const LayerSite& site,
                                                         const MixtureOfExperts& moe,
                                                         int context_rank) {
  if (site.groups == nullptr) return std::make_unique<ReplayedRouter>(site, *this, context_rank);
  return std::make_unique<RecordedRouter>(site, moe, *this);
}

}  // namespace lockstep
