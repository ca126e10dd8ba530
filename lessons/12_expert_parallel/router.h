#pragma once

#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "core/model/linear.h"
#include "lessons/12_expert_parallel/batch_load.h"
#include "lessons/12_expert_parallel/experts.h"
#include "lessons/12_expert_parallel/given_routing.h"
#include "lessons/12_expert_parallel/routing.h"
#include "lessons/12_expert_parallel/routing_log.h"

namespace lockstep {

/// Chooses experts: probabilities p = softmax(x W), of which the k largest count. The result of a
/// token is Σ p_e expert_e(x) over its experts e, so the router learns through p.
///
/// The load-balance loss is coefficient · E Σ f_i P_i, summed over layers: f_i is the share of
/// choices that fell on expert i, and P_i the mean of p_i. Both are statistics of one microbatch on
/// one rank, and the loss is averaged over ranks and microbatches; or both are statistics of the
/// whole batch (MixtureOfExperts::balance_over_batch). If P is uniform, E Σ f_i P_i is 1; if the
/// experts chosen most also have the highest P_i, it is larger. The gradient takes a separate path:
/// f has no gradient, and the gradient of P_i goes directly to the router's probabilities, without
/// passing through an expert. This gradient needs f, but not P, so over a batch, ranks sum only f.
class Router {
 public:
  struct Saved {
    Tensor probabilities;               ///< (N, E)
    Tensor experts;                     ///< (N, k)
    std::vector<std::int32_t> choices;  ///< `experts` on the host; empty on the meta device
  };

  Router(const LayerSite& site, const MixtureOfExperts& moe, std::unique_ptr<RouterWatch> watch)
      : device_(site.device),
        layer_(site.layer),
        ops_(site.device, site.layer, site.config.dtype),
        moe_(moe),
        linear_(site,
                {.weight = expert_spec(site.config, site.layer, ExpertSlot::router, moe.experts),
                 .bias = {},
                 .in = site.config.hidden,
                 .out = moe.experts,
                 .output = "router logits"}),
        watch_(std::move(watch)),
        member_(site.group(Axis::ep) != nullptr ? site.group(Axis::ep)->rank() : 0) {
    if (moe.balance_over_batch) batch_load_.emplace(site, moe.experts);
  }

  /// Routes the tokens of x (b, s, h), with N = b s.
  Routing forward(Tensor x, Saved& saved, Stash& stash) {
    const std::int64_t tokens = x.shape().rows();
    const Tensor logits = linear_.forward(std::move(x), stash);
    saved.probabilities = ops_.statistic({tokens, moe_.experts}, "router probabilities");
    saved.experts = Tensor{
        device_.memory, {tokens, moe_.top_k}, MemoryCategory::activations, DType::i32, "routing"};
    const Tensor gaps = ops_.statistic({tokens});
    ops_.router_forward(logits, saved.probabilities, saved.experts, gaps);
    const bool on_meta = device_.memory.device() == DeviceKind::meta;
    Routing routing = on_meta ? without_values(tokens) : read(saved, gaps);
    if (batch_load_) batch_load_->add(routing.chosen);
    return routing;
  }

  /// Returns dx from the gradients of the chosen probabilities, dweights (N, k).
  Tensor backward_input(const Tensor& dweights, const Saved& saved, const Routing& routing,
                        const Shape& x, Stash& stash) {
    std::vector<float> slopes;  // of the load-balance loss, by expert
    const std::vector<std::int64_t> by_expert = batch_load_ ? batch_load_->take() : routing.chosen;
    const auto choices =
        static_cast<double>(std::accumulate(by_expert.begin(), by_expert.end(), std::int64_t{0}));
    for (const std::int64_t chosen : by_expert)
      slopes.push_back(
          static_cast<float>(moe_.balance * moe_.experts * (static_cast<double>(chosen) / choices) /
                             static_cast<double>(moe_.batch_tokens)));
    const Tensor balance = ops_.statistic({moe_.experts});
    device_.compute.write(slopes.data(), balance);
    Tensor dlogits = ops_.activation({x[0], x[1], moe_.experts}, activation_gradients);
    ops_.router_backward(saved.probabilities, saved.experts, dweights, balance, dlogits);
    return linear_.backward_input(std::move(dlogits), stash);
  }
  void backward_weight(Stash& stash) { linear_.backward_weight(stash); }
  void collect(std::vector<Parameter*>& parameters) { linear_.collect(parameters); }

  /// Call this once per microbatch, at the end of backward_input, to report its routing to the
  /// watch.
  void routed(Saved& saved, const Routing& routing, const std::vector<std::int64_t>& sent,
              const std::vector<std::int64_t>& received) {
    watch_->routed({std::move(saved.choices), routing.chosen, routing.kept, sent, received});
  }

 private:
  /// Reads the choices, which the watch may change, and returns their routing.
  Routing read(Saved& saved, View gaps) {
    saved.choices.resize(static_cast<std::size_t>(saved.experts.elements()));
    device_.compute.read(saved.experts, saved.choices.data());
    if (watch_->chosen(saved.choices, saved.probabilities, gaps))
      device_.compute.write(saved.choices.data(), saved.experts);
    return route(saved.choices, moe_);
  }

  /// Returns the routing on the meta device.
  Routing without_values(std::int64_t tokens) const {
    if (moe_.given == nullptr) return synthetic_routing(tokens, layer_, moe_);
    Routing routing;
    routing.kept_by_member = moe_.given->take(layer_);
    routing.chosen = routing.kept = routing.kept_by_member[static_cast<std::size_t>(member_)];
    return routing;
  }

  Device device_;
  int layer_;
  Ops ops_;
  MixtureOfExperts moe_;
  Linear linear_;
  std::unique_ptr<RouterWatch> watch_;
  std::optional<BatchLoad> batch_load_;  ///< none if the loss takes a microbatch's statistics
  int member_;                           ///< this rank's index in the expert-parallel group
};

}  // namespace lockstep
