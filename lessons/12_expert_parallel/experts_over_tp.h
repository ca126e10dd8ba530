#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "lessons/06_tensor_parallel/tensor_parallel.h"
#include "lessons/12_expert_parallel/expert_parallel.h"

namespace lockstep {

// Experts over the tensor-parallel group, as some courses draw expert parallelism. The t ranks of
// this group already hold the same tokens, so no token has to move: each rank applies its own
// experts to all tokens that chose them, and an all-reduce adds the results. (expert_parallel.h
// divides the experts among ranks with different tokens.)

/// Returns the part of a routing that concerns experts [first, first + count): only their choices
/// have slots.
inline Routing part_of(const Routing& whole, int first, int count) {
  Routing part = whole;
  const auto begin = whole.kept.begin();
  const std::int64_t before = std::accumulate(begin, begin + first, std::int64_t{0});
  part.kept.assign(begin + first, begin + first + count);
  const std::int64_t rows = part.rows();
  for (std::int32_t& slot : part.slots)
    slot = slot >= before && slot < before + rows ? static_cast<std::int32_t>(slot - before) : -1;
  if (!whole.tokens.empty())
    part.tokens.assign(whole.tokens.begin() + before, whole.tokens.begin() + before + rows);
  return part;
}

/// The experts in place of a block's MLP, with the same tokens on all ranks.
class SharedTokensExperts : public Layer {
 public:
  SharedTokensExperts(const LayerSite& site, const MixtureOfExperts& moe,
                      std::unique_ptr<RouterWatch> watch)
      : device_(site.device),
        ops_(site.device, site.layer, site.config.dtype),
        moe_(moe),
        ranks_(*site.group(Axis::tp)),
        router_(site, moe, std::move(watch)),
        experts_(site, moe.experts) {}

  Tensor forward(Tensor x, Stash& stash) override {
    Saved& saved = stash.of<Saved>(this);
    saved.shape = x.shape();
    saved.routing = router_.forward(x.share(), saved.router, stash);
    const int local = moe_.experts / ranks_.size();
    const Routing mine = part_of(saved.routing, ranks_.rank() * local, local);
    saved.slots = index_tensor(device_, mine.slots, {saved.shape.rows(), moe_.top_k});
    Tensor inputs = ops_.activation({mine.rows(), saved.shape.last()}, "tokens by expert");
    {
      const Tensor tokens = index_tensor(device_, mine.tokens, {mine.rows()});
      ops_.gather_rows(x, tokens, inputs);
    }
    x.reset();
    saved.outputs = experts_.forward(std::move(inputs), mine.kept, saved.experts);
    Tensor y = ops_.activation(saved.shape, "MLP output");
    ops_.combine_rows(saved.outputs, saved.slots, saved.router.probabilities, saved.router.experts,
                      y);
    ranks_.all_reduce(y).wait();  // g of tensor parallelism
    return y;
  }

  Tensor backward_input(Tensor dy, Stash& stash) override {
    Saved& saved = stash.saved<Saved>(this);
    const Tensor dweights = ops_.statistic(saved.slots.shape(), activation_gradients);
    Tensor dy_experts = ops_.activation(saved.outputs.shape(), activation_gradients);
    ops_.combine_rows_backward(dy, saved.outputs, saved.slots, saved.router.probabilities,
                               saved.router.experts, dy_experts, dweights);
    dy.reset();
    saved.outputs.reset();
    // Each rank has computed the gradients of its own experts' probabilities, but the router needs
    // all of them.
    ranks_.all_reduce(dweights).wait();
    Tensor dx_experts = experts_.backward_input(std::move(dy_experts), saved.experts);
    Tensor dx = ops_.activation(saved.shape, activation_gradients);
    ops_.combine_rows(dx_experts, saved.slots, {}, {}, dx);
    dx_experts.reset();
    ranks_.all_reduce(dx).wait();  // f
    const Tensor through_router =
        router_.backward_input(dweights, saved.router, saved.routing, saved.shape, stash);
    ops_.add(dx, through_router, dx);
    const std::int64_t rows = saved.experts.x.shape()[0];
    router_.routed(saved.router, saved.routing, {rows}, {rows});
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
    Routing routing;  ///< of all experts
    Router::Saved router;
    Tensor slots;  ///< (N, k), of this rank's experts
    Experts::Saved experts;
    Tensor outputs;
  };

  Device device_;
  Ops ops_;
  MixtureOfExperts moe_;
  Group& ranks_;
  Router router_;
  Experts experts_;
};

/// Builds lesson 6's model with experts, divided among the ranks of the tp axis.
class ExpertsOverTensorParallel : public TensorParallel {
 public:
  /// `log` must outlive the builder.
  ExpertsOverTensorParallel(const MixtureOfExperts& moe, RoutingLog& log) : moe_(moe), log_(log) {}

  std::vector<ParameterSpec> parameters(const GptConfig& config) const override {
    return with_experts(TensorParallel::parameters(config), config, moe_.experts, Axis::tp);
  }
  std::unique_ptr<Layer> mlp(const LayerSite& site) const override {
    auto watch = log_.watch(site, moe_);
    if (site.group(Axis::tp) == nullptr)
      return std::make_unique<ExpertMlp>(site, moe_, std::move(watch));
    return std::make_unique<SharedTokensExperts>(site, moe_, std::move(watch));
  }

 private:
  MixtureOfExperts moe_;
  RoutingLog& log_;
};

}  // namespace lockstep
