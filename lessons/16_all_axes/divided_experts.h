#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/plan/batch.h"
#include "lessons/06_tensor_parallel/tensor_parallel.h"
#include "lessons/12_expert_parallel/expert_parallel.h"

namespace lockstep {

/// Lesson 12's experts, each divided among the ranks of tp, as lesson 6 divides an MLP: f gives
/// every rank all tokens, and g adds the ranks' terms of the results.
class DividedExpertMlp : public ExpertMlp {
 public:
  DividedExpertMlp(const LayerSite& site, const MixtureOfExperts& moe,
                   std::unique_ptr<RouterWatch> watch, Group& ranks, std::unique_ptr<Layer> f,
                   std::unique_ptr<Layer> g)
      : ExpertMlp(site, moe, std::move(watch), /*adds_whole_terms=*/ranks.rank() == 0),
        ranks_(ranks),
        f_(std::move(f)),
        g_(std::move(g)) {}

  Tensor forward(Tensor x, Stash& stash) override {
    x = f_->forward(std::move(x), stash);
    Tensor y = ExpertMlp::forward(std::move(x), stash);
    return g_->forward(std::move(y), stash);
  }
  Tensor backward_input(Tensor dy, Stash& stash) override {
    dy = g_->backward_input(std::move(dy), stash);
    Tensor dx = ExpertMlp::backward_input(std::move(dy), stash);
    return f_->backward_input(std::move(dx), stash);
  }

 private:
  void complete(View dweights) override { ranks_.all_reduce(dweights).wait(); }

  Group& ranks_;
  std::unique_ptr<Layer> f_, g_;
};

/// The watches of cp ranks whose tokens one device runs in turn.
class WatchesInTurn : public RouterWatch {
 public:
  WatchesInTurn(const LayerSite& site, const MixtureOfExperts& moe, RoutingLog& log, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) watches_.push_back(log.watch(site, moe, rank));
  }
  int size() const { return static_cast<int>(watches_.size()); }
  void set_turn(int rank) { turn_ = static_cast<std::size_t>(rank); }

  bool chosen(std::vector<std::int32_t>& choices, View probabilities, View gaps) override {
    return watches_[turn_]->chosen(choices, probabilities, gaps);
  }
  void routed(RoutedMicrobatch microbatch) override {
    watches_[turn_]->routed(std::move(microbatch));
  }

 private:
  std::vector<std::unique_ptr<RouterWatch>> watches_;
  std::size_t turn_ = 0;
};

/// On one device: the experts of a run whose cp ranks share each sequence. Each of these ranks
/// routes its own tokens, so capacities and the load-balance loss are those of its tokens alone;
/// the device therefore runs the tokens of one rank after the other.
class ContextRanksInTurn : public Layer {
 public:
  ContextRanksInTurn(const LayerSite& site, const MixtureOfExperts& moe, RoutingLog& log, int ranks)
      : ContextRanksInTurn(site, moe, std::make_unique<WatchesInTurn>(site, moe, log, ranks)) {}

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

  ContextRanksInTurn(const LayerSite& site, const MixtureOfExperts& moe,
                     std::unique_ptr<WatchesInTurn> watches)
      : device_(site.device),
        ops_(site.device, site.layer, site.config.dtype),
        layout_(site.context),
        ranks_(watches->size()),
        watches_(*watches),
        experts_(site, moe, std::move(watches)) {}

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
        for (const auto& [begin, end] :
             context_positions(layout, documents_of(stash, sequence, s), rank, ranks))
          for (int i = begin; i < end; ++i) {
            tokens.push_back(static_cast<std::int32_t>(sequence * s + i));
            place[static_cast<std::size_t>(tokens.back())] = next++;
          }
      const auto count = static_cast<std::int64_t>(tokens.size());
      Tensor part = ops_.activation({b, count / b, h});
      ops_.gather_rows(x, index_tensor(device_, tokens, {count}), part.view().reshaped({count, h}));
      watches_.set_turn(rank);
      const Tensor result = run(std::move(part), of_rank[static_cast<std::size_t>(rank)]);
      ops_.copy(result.view().reshaped({count, h}), rows_of(results, next - count, count));
    }
    Tensor y = ops_.activation({b, s, h});
    ops_.gather_rows(results, index_tensor(device_, place, {b * s}), y.view().reshaped({b * s, h}));
    return y;
  }

  /// Returns the documents of one of the microbatch's sequences, on which a balanced layout
  /// depends.
  static Documents documents_of(const Stash& stash, std::int64_t sequence, std::int64_t s) {
    const DocumentMasks* masks = stash.microbatch().masks;
    if (masks == nullptr) return {static_cast<int>(s)};
    return masks->documents[static_cast<std::size_t>(sequence)];
  }

  Device device_;
  Ops ops_;
  ContextLayout layout_;
  int ranks_;
  WatchesInTurn& watches_;  ///< which `experts_` own
  ExpertMlp experts_;
};

/// Builds lesson 12's experts on a mesh of all axes: the ranks of tp divide each expert, and those
/// of cp, `context_ranks`, share each sequence.
template <class Products>
class DividedExperts : public ExpertParallel<Products> {
 public:
  /// `log` must outlive the builder.
  DividedExperts(const MixtureOfExperts& moe, RoutingLog& log, int context_ranks)
      : ExpertParallel<Products>(moe, log), context_ranks_(context_ranks) {}

  std::unique_ptr<Layer> mlp(const LayerSite& site) const override {
    if (site.groups == nullptr && context_ranks_ > 1)
      return std::make_unique<ContextRanksInTurn>(site, this->moe_, this->log_, context_ranks_);
    Group* ranks = site.group(Axis::tp);
    if (ranks == nullptr) return ExpertParallel<Products>::mlp(site);
    return std::make_unique<DividedExpertMlp>(site, this->moe_, this->log_.watch(site, this->moe_),
                                              *ranks, this->f(site, *ranks), this->g(site, *ranks));
  }

 private:
  int context_ranks_;
};

}  // namespace lockstep
