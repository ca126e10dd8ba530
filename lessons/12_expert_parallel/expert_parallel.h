#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/model/builder.h"
#include "core/model/ops.h"
#include "lessons/12_expert_parallel/experts.h"
#include "lessons/12_expert_parallel/router.h"
#include "lessons/12_expert_parallel/token_exchange.h"

namespace lockstep {

// A mixture of experts (Shazeer 2017): the MLP of each block becomes E MLPs, the experts. A router
// chooses k of them for each token, so the parameters grow with E, and the FLOPs per token with k.
//
// Expert parallelism (Lepikhin 2020, "GShard"): the ranks of the ep axis, which lies within the
// data-parallel ranks, divide the experts of each layer among themselves. Each rank routes its own
// tokens. A small all-to-all announces the numbers of rows. A second one brings the tokens to the
// ranks that hold their experts (dispatch), and a third brings the results back (combine). The
// backward pass uses the latter two paths in reverse. Everything else is data parallel.

/// The experts in place of a block's MLP, (b, s, h) -> (b, s, h). The result of a token that all
/// its experts dropped is 0, so it passes the block through the residual connection alone.
class ExpertMlp : public Layer {
 public:
  Tensor forward(Tensor x, Stash& stash) override {
    Saved& saved = stash.of<Saved>(this);
    saved.shape = x.shape();
    route(x, saved, stash);
    Tensor inputs = exchange_.dispatch(rows_of_tokens(std::move(x), saved), saved.rows);
    Tensor outputs = experts_.forward(std::move(inputs), saved.rows.of_expert, saved.experts);
    saved.outputs = exchange_.give_back(std::move(outputs), saved.rows);
    return combine(saved);
  }

  Tensor backward_input(Tensor dy, Stash& stash) override {
    Saved& saved = stash.saved<Saved>(this);
    const Tensor dweights = ops_.statistic(saved.slots.shape(), activation_gradients);
    Tensor mine = combine_backward(std::move(dy), saved, dweights);
    Tensor dx_experts =
        experts_.backward_input(exchange_.dispatch(std::move(mine), saved.rows), saved.experts);
    Tensor dx = ops_.activation(saved.shape, activation_gradients);
    {
      const Tensor back = exchange_.give_back(std::move(dx_experts), saved.rows);
      ops_.combine_rows(back, saved.slots, {}, {}, dx);
    }
    {
      const Tensor through_router =
          router_.backward_input(dweights, saved.router, saved.routing, saved.shape, stash);
      if (adds_whole_terms_) ops_.add(dx, through_router, dx);
    }
    router_.routed(saved.router, saved.routing, saved.rows.sent, saved.rows.received);
    return dx;
  }

  void backward_weight(Stash& stash) override {
    experts_.backward_weight(stash.saved<Saved>(this).experts);
    router_.backward_weight(stash);
    stash.drop(this);
  }

  /// `adds_whole_terms` is false if the results are terms of a sum over ranks, and another rank
  /// adds the terms that all of them know in full.
  ExpertMlp(const LayerSite& site, const MixtureOfExperts& moe, std::unique_ptr<RouterWatch> watch,
            bool adds_whole_terms = true)
      : device_(site.device),
        ops_(site.device, site.layer, site.config.dtype),
        adds_whole_terms_(adds_whole_terms),
        top_k_(moe.top_k),
        router_(site, moe, std::move(watch)),
        exchange_(site, site.group(Axis::ep), moe.experts),
        experts_(site, moe.experts, adds_whole_terms) {}

  void collect(std::vector<Parameter*>& parameters) override {
    router_.collect(parameters);
    experts_.collect(parameters);
  }

 protected:
  /// Called with the gradients of the chosen probabilities, (N, k), before the router uses them. If
  /// ranks divide each expert, each rank computes only its terms of these gradients.
  virtual void complete(View dweights) { static_cast<void>(dweights); }

 private:
  struct Saved {
    Shape shape;
    Routing routing;
    Router::Saved router;
    Tensor slots;  ///< (N, k)
    TokenExchange::Rows rows;
    Experts::Saved experts;
    Tensor outputs;  ///< the experts' results for this rank's tokens, in order of the slots
  };

  /// Chooses the experts of each token, and learns from the other ranks how many rows will arrive.
  void route(const Tensor& x, Saved& saved, Stash& stash) {
    saved.routing = router_.forward(x.share(), saved.router, stash);
    saved.slots = index_tensor(device_, saved.routing.slots, {saved.shape.rows(), top_k_});
    saved.rows = exchange_.announce(saved.routing);
  }
  /// Returns the tokens that the experts accepted, once per choice, in order of the slots.
  Tensor rows_of_tokens(Tensor x, const Saved& saved) const {
    const Routing& routing = saved.routing;
    Tensor mine = exchange_.outgoing(routing.rows());
    const Tensor tokens = index_tensor(device_, routing.tokens, {routing.rows()});
    ops_.gather_rows(x, tokens, mine);
    x.reset();
    return mine;
  }
  /// Returns y: for each token, the sum of its experts' results, weighted with their probabilities.
  Tensor combine(const Saved& saved) const {
    Tensor y = ops_.activation(saved.shape, "MLP output");
    ops_.combine_rows(saved.outputs, saved.slots, saved.router.probabilities, saved.router.experts,
                      y);
    return y;
  }
  /// Returns the gradients of the experts' results, and computes those of the probabilities.
  Tensor combine_backward(Tensor dy, Saved& saved, const Tensor& dweights) {
    Tensor mine = exchange_.outgoing(saved.routing.rows());
    ops_.combine_rows_backward(dy, saved.outputs, saved.slots, saved.router.probabilities,
                               saved.router.experts, mine, dweights);
    dy.reset();
    saved.outputs.reset();
    complete(dweights);
    return mine;
  }

  Device device_;
  Ops ops_;
  bool adds_whole_terms_;
  int top_k_;
  Router router_;
  TokenExchange exchange_;
  Experts experts_;
};

/// Builds the model of `Base` with experts instead of MLPs.
template <class Base = ModelBuilder>
class ExpertParallel : public Base {
 public:
  /// `log` must outlive the builder.
  template <class... Arguments>
  ExpertParallel(const MixtureOfExperts& moe, RoutingLog& log, Arguments&&... base)
      : Base(std::forward<Arguments>(base)...), moe_(moe), log_(log) {}

  std::vector<ParameterSpec> parameters(const GptConfig& config) const override {
    return with_experts(Base::parameters(config), config, moe_.experts, Axis::ep);
  }
  std::unique_ptr<Layer> mlp(const LayerSite& site) const override {
    return std::make_unique<ExpertMlp>(site, moe_, log_.watch(site, moe_));
  }

 protected:
  MixtureOfExperts moe_;
  RoutingLog& log_;
};

}  // namespace lockstep
