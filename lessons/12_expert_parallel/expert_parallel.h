#pragma once

#include <concepts>
#include <memory>
#include <utility>
#include <vector>

#include "core/model/builder.h"
#include "core/model/ops.h"
#include "lessons/06_tensor_parallel/tensor_parallel.h"
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

/// The tensor-parallel ranks that divide each expert, as lesson 6 divides an MLP: the exchanges
/// before its columns and after its rows, which give every rank all tokens, and add the ranks'
/// terms. All null if there are no such ranks.
struct DividedExperts {
  Group* ranks = nullptr;
  std::unique_ptr<Layer> f{}, g{};
};

/// The experts in place of a block's MLP, (b, s, h) -> (b, s, h). The result of a token that all
/// its experts dropped is 0, so it passes the block through the residual connection alone.
class ExpertMlp : public Layer {
 public:
  /// `log` must outlive the layer.
  ExpertMlp(const LayerSite& site, const MixtureOfExperts& moe, RoutingLog& log,
            DividedExperts divided = {})
      : device_(site.device),
        ops_(site.device, site.layer, site.config.dtype),
        moe_(moe),
        divided_(std::move(divided)),
        router_(site, moe, log),
        exchange_(site, site.group(Axis::ep), moe.experts),
        experts_(site, moe.experts, is_first()) {}

  /// See Router.
  void set_context_rank(int rank) { router_.set_context_rank(rank); }

  Tensor forward(Tensor x, Stash& stash) override {
    if (divided_.f) x = divided_.f->forward(std::move(x), stash);
    Saved& saved = stash.of<Saved>(this);
    saved.shape = x.shape();
    saved.routing = router_.forward(x.share(), saved.router, stash);
    const Routing& routing = saved.routing;
    saved.slots = index_tensor(device_, routing.slots, {saved.shape.rows(), moe_.top_k});
    saved.rows = exchange_.announce(routing);

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
    return divided_.g ? divided_.g->forward(std::move(y), stash) : std::move(y);
  }

  Tensor backward_input(Tensor dy, Stash& stash) override {
    Saved& saved = stash.saved<Saved>(this);
    if (divided_.g) dy = divided_.g->backward_input(std::move(dy), stash);
    const Tensor dweights = ops_.statistic(saved.slots.shape());
    Tensor mine = exchange_.outgoing(saved.routing.rows());
    ops_.combine_rows_backward(dy, saved.outputs, saved.slots, saved.router.probabilities,
                               saved.router.experts, mine, dweights);
    dy.reset();
    saved.outputs.reset();
    // Each of these ranks knows its terms of the gradients, and the router needs the sums.
    if (divided_.ranks != nullptr) divided_.ranks->all_reduce(dweights).wait();
    Tensor dx_experts =
        experts_.backward_input(exchange_.dispatch(std::move(mine), saved.rows), saved.experts);
    Tensor dx = ops_.activation(saved.shape);
    {
      const Tensor back = exchange_.give_back(std::move(dx_experts), saved.rows);
      ops_.combine_rows(back, saved.slots, {}, {}, dx);
    }
    {
      const Tensor through_router =
          router_.backward_input(dweights, saved.router, saved.routing, saved.shape, stash);
      if (is_first()) ops_.add(dx, through_router, dx);
    }
    router_.record(saved.router, saved.routing, saved.rows.sent, saved.rows.received);
    return divided_.f ? divided_.f->backward_input(std::move(dx), stash) : std::move(dx);
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
  /// Returns whether this rank adds what must be in the sum over ranks once.
  bool is_first() const { return divided_.ranks == nullptr || divided_.ranks->rank() == 0; }

  Device device_;
  Ops ops_;
  MixtureOfExperts moe_;
  DividedExperts divided_;
  Router router_;
  TokenExchange exchange_;
  Experts experts_;
};

/// On one device: the experts of a run whose cp ranks share each sequence. Each of these ranks
/// routes its own tokens, so capacities and the load-balance loss are those of its tokens alone;
/// the device therefore runs the tokens of one rank after the other.
class ContextRanksInTurn : public Layer {
 public:
  ContextRanksInTurn(const LayerSite& site, const MixtureOfExperts& moe, RoutingLog& log)
      : device_(site.device),
        ops_(site.device, site.layer, site.config.dtype),
        layout_(site.context),
        ranks_(moe.context_ranks),
        experts_(site, moe, log) {}

  Tensor forward(Tensor x, Stash& stash) override {
    return in_turn(x, stash, [this](Tensor part, Stash& own) {
      return experts_.forward(std::move(part), own);
    });
  }
  Tensor backward_input(Tensor dy, Stash& stash) override {
    return in_turn(dy, stash, [this](Tensor part, Stash& own) {
      return experts_.backward_input(std::move(part), own);
    });
  }
  void backward_weight(Stash& stash) override {
    for (Stash& own : stash.saved<Saved>(this).of_rank) experts_.backward_weight(own);
    stash.drop(this);
  }
  void collect(std::vector<Parameter*>& parameters) override { experts_.collect(parameters); }

 private:
  struct Saved {
    std::vector<Stash> of_rank;
  };

  /// Calls run(the tokens of a rank, its stash) for each rank, and puts the results together.
  template <class Run>
  Tensor in_turn(const Tensor& x, Stash& stash, const Run& run) {
    const std::int64_t b = x.shape()[0], s = x.shape()[1], h = x.shape()[2];
    // A text that is being generated can have any length; nothing else is compared with ranks.
    const bool divisible = s % (2 * ranks_) == 0;
    const int ranks = divisible ? ranks_ : 1;
    const ContextLayout layout = divisible ? layout_ : ContextLayout::contiguous;
    std::vector<Stash>& of_rank = stash.of<Saved>(this).of_rank;
    of_rank.resize(static_cast<std::size_t>(ranks));
    const Tensor results = ops_.activation({b * s, h});
    std::vector<std::int32_t> place(static_cast<std::size_t>(b * s));  // of each token
    std::int32_t next = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<std::int32_t> tokens;
      for (std::int64_t sequence = 0; sequence < b; ++sequence)
        for (const auto& [begin, end] : context_positions(layout, static_cast<int>(s), rank, ranks))
          for (int i = begin; i < end; ++i) {
            tokens.push_back(static_cast<std::int32_t>(sequence * s + i));
            place[static_cast<std::size_t>(tokens.back())] = next++;
          }
      const auto count = static_cast<std::int64_t>(tokens.size());
      Tensor part = ops_.activation({b, count / b, h});
      ops_.gather_rows(x, index_tensor(device_, tokens, {count}), part.view().reshaped({count, h}));
      experts_.set_context_rank(rank);
      const Tensor result = run(std::move(part), of_rank[static_cast<std::size_t>(rank)]);
      ops_.copy(result.view().reshaped({count, h}), rows_of(results, next - count, count));
    }
    Tensor y = ops_.activation({b, s, h});
    ops_.gather_rows(results, index_tensor(device_, place, {b * s}), y.view().reshaped({b * s, h}));
    return y;
  }

  Device device_;
  Ops ops_;
  ContextLayout layout_;
  int ranks_;
  ExpertMlp experts_;
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
    if (site.groups == nullptr && moe_.context_ranks > 1)
      return std::make_unique<ContextRanksInTurn>(site, moe_, log_);
    if constexpr (std::derived_from<Base, TensorParallel>)
      if (Group* ranks = site.group(Axis::tp))
        return std::make_unique<ExpertMlp>(
            site, moe_, log_, DividedExperts{ranks, this->f(site, *ranks), this->g(site, *ranks)});
    return std::make_unique<ExpertMlp>(site, moe_, log_);
  }

 private:
  MixtureOfExperts moe_;
  RoutingLog& log_;
};

}  // namespace lockstep
