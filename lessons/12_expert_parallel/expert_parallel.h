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
// ranks that have their experts (dispatch), and a third brings the results back (combine). The
// backward pass uses the latter two paths in reverse. Everything else is data parallel.

/// The experts in place of a block's MLP, (b, s, h) -> (b, s, h). The result of a token that all
/// its experts dropped is 0, so it passes the block through the residual connection alone.
class ExpertMlp : public Layer {
 public:
  /// `log` must outlive the layer.
  ExpertMlp(const LayerSite& site, const MixtureOfExperts& moe, RoutingLog& log)
      : device_(site.device),
        ops_(site.device, site.layer, site.config.dtype),
        moe_(moe),
        router_(site, moe, log),
        exchange_(site, site.group(Axis::ep), moe.experts),
        experts_(site, moe.experts) {}

  Tensor forward(Tensor x, Stash& stash) override {
    Saved& saved = stash.of<Saved>(this);
    saved.shape = x.shape();
    saved.routing = router_.forward(x.share(), saved.router, stash);
    const Routing& routing = saved.routing;
    saved.slots = index_tensor(device_, routing.slots, {saved.shape.rows(), moe_.top_k});
    saved.rows = exchange_.announce(routing.kept);

    Tensor mine = exchange_.outgoing(routing.rows());
    {
      const Tensor tokens = index_tensor(device_, routing.tokens, {routing.rows()});
      ops_.gather_rows(x, tokens, mine);
    }
    x.reset();
    Tensor inputs = exchange_.dispatch(std::move(mine), saved.rows);
    Tensor outputs = experts_.forward(std::move(inputs), saved.rows.of_expert, saved.experts);
    saved.outputs = exchange_.give_back(std::move(outputs), saved.rows);

    Tensor y = ops_.activation(saved.shape);
    ops_.combine_rows(saved.outputs, saved.slots, saved.router.probabilities, saved.router.experts,
                      y);
    return y;
  }

  Tensor backward_input(Tensor dy, Stash& stash) override {
    Saved& saved = stash.saved<Saved>(this);
    const Tensor dweights = ops_.statistic(saved.slots.shape());
    Tensor mine = exchange_.outgoing(saved.routing.rows());
    ops_.combine_rows_backward(dy, saved.outputs, saved.slots, saved.router.probabilities,
                               saved.router.experts, mine, dweights);
    dy.reset();
    saved.outputs.reset();
    Tensor dx_experts =
        experts_.backward_input(exchange_.dispatch(std::move(mine), saved.rows), saved.experts);
    Tensor dx = ops_.activation(saved.shape);
    {
      const Tensor back = exchange_.give_back(std::move(dx_experts), saved.rows);
      ops_.combine_rows(back, saved.slots, {}, {}, dx);
    }
    const Tensor through_router =
        router_.backward_input(dweights, saved.router, saved.routing, saved.shape, stash);
    ops_.add(dx, through_router, dx);
    router_.record(saved.router, saved.routing, saved.rows.sent, saved.rows.received);
    return dx;
  }

  void backward_weight(Stash& stash) override {
    experts_.backward_weight(stash.saved<Saved>(this).experts);
    router_.backward_weight(stash);
    stash.drop(this);
  }

  void collect(std::vector<Parameter*>& parameters) override {
    router_.collect(parameters);
    experts_.collect(parameters);
  }

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
  Device device_;
  Ops ops_;
  MixtureOfExperts moe_;
  Router router_;
  TokenExchange exchange_;
  Experts experts_;
};

/// Builds GPT-2 with experts instead of MLPs.
class ExpertParallel : public ModelBuilder {
 public:
  /// `log` must outlive the builder.
  ExpertParallel(const MixtureOfExperts& moe, RoutingLog& log) : moe_(moe), log_(log) {}

  std::vector<ParameterSpec> parameters(const GptConfig& config) const override {
    return with_experts(ModelBuilder::parameters(config), config, moe_.experts, Axis::ep);
  }

  std::unique_ptr<Layer> mlp(const LayerSite& site) const override {
    return std::make_unique<ExpertMlp>(site, moe_, log_);
  }

 private:
  MixtureOfExperts moe_;
  RoutingLog& log_;
};

}  // namespace lockstep
