#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/model/linear.h"
#include "lessons/12_expert_parallel/experts.h"
#include "lessons/12_expert_parallel/given_routing.h"
#include "lessons/12_expert_parallel/routing.h"
#include "lessons/12_expert_parallel/routing_log.h"

namespace lockstep {

/// Chooses experts: probabilities p = softmax(x W), of which the k largest count. The result of a
/// token is Σ p_e expert_e(x) over its experts e, so the router learns through p.
///
/// The load-balance loss is coefficient · E Σ f_i P_i, summed over layers and averaged over ranks
/// and microbatches: f_i is the share of choices that fell on expert i, and P_i the mean of p_i. If
/// P is uniform, E Σ f_i P_i is 1; if the experts chosen most also have the highest P_i, it is
/// larger. The gradient takes a path of its own: f has no gradient, and P_i's goes directly to the
/// router's probabilities, without passing through an expert.
class Router {
 public:
  struct Saved {
    Tensor probabilities;               ///< (N, E)
    Tensor experts;                     ///< (N, k)
    std::vector<std::int32_t> choices;  ///< `experts` on the host; empty on the meta device
    // Only on one device:
    std::vector<Flip> flips;
    std::int64_t compared = 0;  ///< tokens whose choices were compared with a rank's
    float closest = 1;  ///< over these, the smallest gap between the last chosen probability and
                        ///< the next
  };

  Router(const LayerSite& site, const MixtureOfExperts& moe, RoutingLog& log)
      : device_(site.device),
        layer_(site.layer),
        ops_(site.device, site.layer, site.config.dtype),
        moe_(moe),
        log_(log),
        linear_(site,
                {.weight = expert_spec(site.config, site.layer, ExpertSlot::router, moe.experts),
                 .bias = {},
                 .in = site.config.hidden,
                 .out = moe.experts}),
        calls_(site.groups != nullptr
                   ? &log.calls(place(site, Axis::dp) * moe.context_ranks + place(site, Axis::cp),
                                site.layer, place(site, Axis::tp))
                   : nullptr),
        replays_(site.groups == nullptr),
        traced_(site.groups != nullptr && place(site, Axis::tp) == 0),
        member_(static_cast<std::size_t>(place(site, Axis::ep))) {}

  /// On one device: routes the next tokens like this rank of the cp axis. Records them with the
  /// last rank's.
  void set_context_rank(int rank) { context_rank_ = rank; }

  Routing forward(Tensor x, Saved& saved, Stash& stash) {
    const std::int64_t tokens = x.shape().rows();
    const Tensor logits = linear_.forward(std::move(x), stash);
    saved.probabilities = ops_.statistic({tokens, moe_.experts});
    saved.experts =
        Tensor{device_.memory, {tokens, moe_.top_k}, MemoryCategory::activations, DType::i32};
    const Tensor gaps = ops_.statistic({tokens});
    ops_.router_forward(logits, saved.probabilities, saved.experts, gaps);
    if (device_.memory.device() == DeviceKind::meta) return without_values(tokens);
    saved.choices.resize(static_cast<std::size_t>(saved.experts.elements()));
    device_.compute.read(saved.experts, saved.choices.data());
    if (replays_) compare_with_ranks(saved, gaps);
    return route(saved.choices, moe_);
  }

  /// Returns dx from the gradients of the chosen probabilities, dweights (N, k).
  Tensor backward_input(const Tensor& dweights, const Saved& saved, const Routing& routing,
                        const Shape& x, Stash& stash) {
    std::vector<float> slopes;  // of the load-balance loss, by expert
    const double choices = static_cast<double>(saved.experts.elements());
    for (const std::int64_t chosen : routing.chosen)
      slopes.push_back(
          static_cast<float>(moe_.balance * moe_.experts * (static_cast<double>(chosen) / choices) /
                             static_cast<double>(moe_.batch_tokens)));
    const Tensor balance = ops_.statistic({moe_.experts});
    device_.compute.write(slopes.data(), balance);
    Tensor dlogits = ops_.activation({x[0], x[1], moe_.experts});
    ops_.router_backward(saved.probabilities, saved.experts, dweights, balance, dlogits);
    return linear_.backward_input(std::move(dlogits), stash);
  }
  void backward_weight(Stash& stash) { linear_.backward_weight(stash); }
  void collect(std::vector<Parameter*>& parameters) { linear_.collect(parameters); }

  /// Records the microbatch's routing. Call this once, at the end of backward_input.
  void record(Saved& saved, const Routing& routing, const std::vector<std::int64_t>& sent,
              const std::vector<std::int64_t>& received) {
    if (traced_) trace(routing);
    if (!log_.keeps_choices()) saved.choices.clear();
    if (calls_ != nullptr)
      calls_->push_back({std::move(saved.choices), routing.chosen, routing.kept, sent, received});
    if (saved.compared > 0) log_.add(saved.flips, saved.compared, saved.closest);
    if (context_rank_ + 1 == moe_.context_ranks || !replays_) ++microbatches_;
  }

 private:
  static int place(const LayerSite& site, Axis axis) {
    const Group* ranks = site.group(axis);
    return ranks != nullptr ? ranks->rank() : 0;
  }

  /// Returns the routing on the meta device.
  Routing without_values(std::int64_t tokens) const {
    if (moe_.given == nullptr) return synthetic_routing(tokens, layer_, moe_);
    Routing routing;
    routing.kept_by_member = moe_.given->take(layer_);
    routing.chosen = routing.kept = routing.kept_by_member[member_];
    return routing;
  }

  /// A choice of experts is not continuous: if two probabilities are nearly equal, a rounding error
  /// decides. On one device, finds the tokens for which the ranks chose other experts. In a
  /// near-tie, takes the ranks' choice, so that the comparison of the runs stays meaningful. Any
  /// other difference is an error.
  void compare_with_ranks(Saved& saved, View gaps) {
    const RoutingLog::Recorded theirs = log_.recorded(layer_, microbatches_, context_rank_);
    if (theirs.routing == nullptr || theirs.routing->choices.size() != saved.choices.size()) return;
    std::vector<float> from_ties(static_cast<std::size_t>(gaps.elements()));
    device_.compute.read(gaps, from_ties.data());
    saved.compared = gaps.elements();
    saved.closest = std::ranges::min(from_ties);
    const std::int64_t k = moe_.top_k;
    const float near = near_tie(ops_.dtype());
    std::vector<float> probabilities;
    for (std::int64_t token = 0; token < saved.probabilities.shape()[0]; ++token) {
      const std::span mine{saved.choices.data() + token * k, static_cast<std::size_t>(k)};
      const std::span other{theirs.routing->choices.data() + token * k, mine.size()};
      if (std::ranges::is_permutation(mine, other)) continue;
      if (probabilities.empty()) {
        probabilities.resize(static_cast<std::size_t>(saved.probabilities.elements()));
        device_.compute.read(saved.probabilities, probabilities.data());
      }
      float distance = 0;  // from the best of mine that they lack to the worst of theirs
      for (const std::int32_t a : mine)
        for (const std::int32_t b : other)
          if (std::ranges::count(other, a) == 0 && std::ranges::count(mine, b) == 0) {
            const float* const p = probabilities.data() + token * moe_.experts;
            distance = std::max(distance, p[a] - p[b]);
          }
      saved.flips.push_back(
          {theirs.replica, layer_, theirs.call, token, distance, distance <= near});
      if (distance <= near) std::ranges::copy(other, mine.begin());
    }
    if (std::ranges::any_of(saved.flips, &Flip::adopted))
      device_.compute.write(saved.choices.data(), saved.experts);
  }

  /// Writes the numbers of tokens to the trace.
  void trace(const Routing& routing) const {
    const Stream& compute = device_.compute;
    if (!compute.trace().on()) return;
    std::vector<std::pair<std::string, std::int64_t>> tokens;
    for (std::size_t expert = 0; expert < routing.kept.size(); ++expert) {
      tokens.emplace_back(fmt::format("expert {}", expert), routing.kept[expert]);
      if (moe_.capacity_factor > 0)
        tokens.emplace_back(fmt::format("expert {} dropped", expert),
                            routing.chosen[expert] - routing.kept[expert]);
    }
    compute.trace().counter("tokens per expert", layer_, tokens, compute.now());
  }

  Device device_;
  int layer_;
  Ops ops_;
  MixtureOfExperts moe_;
  RoutingLog& log_;
  Linear linear_;
  RoutingLog::Calls* calls_;  ///< null on one device
  bool replays_;              ///< whether this is the single device
  bool traced_;         ///< whether this rank counts its tokens (of the ranks of tp, one does)
  std::size_t member_;  ///< this rank's index in the expert-parallel group
  int context_rank_ = 0;
  std::int64_t microbatches_ = 0;  ///< backward passes done
};

}  // namespace lockstep
