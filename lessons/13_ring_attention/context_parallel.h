#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "lessons/13_ring_attention/gathered_attention.h"
#include "lessons/13_ring_attention/ring_attention.h"
#include "lessons/13_ring_attention/ulysses.h"

namespace lockstep {

/// How attention reaches the tokens of the other ranks of the cp axis.
enum class ContextMethod { ring, ulysses, gather };
constexpr ContextMethod all_context_methods[] = {ContextMethod::ring, ContextMethod::ulysses,
                                                 ContextMethod::gather};
inline const char* name_of(ContextMethod method) {
  constexpr const char* names[] = {"ring", "ulysses", "gather"};
  return names[static_cast<std::size_t>(method)];
}
inline ContextMethod context_method(const std::string& name) {
  for (const ContextMethod method : all_context_methods)
    if (name == name_of(method)) return method;
  throw UsageError("--method " + name + ": must be one of ring, ulysses, gather");
}

/// An embedding of some of the positions of each sequence. The whole position table is on every
/// rank; the rank uses the rows of its own positions.
class ContextEmbedding : public TokenLayer {
 public:
  ContextEmbedding(const LayerSite& site, Group& ranks)
      : ops_(site.device, site.layer, site.config.dtype),
        own_(context_positions(site.context, site.config.sequence, ranks.rank(), ranks.size())),
        tokens_(site.parameter(token_table_spec(site.config))),
        positions_(site.parameter(position_table_spec(site.config))) {}

  Tensor forward(View tokens, Stash& stash) override {
    Tensor x = ops_.activation({tokens.shape[0], tokens.shape[1], tokens_.shape[1]});
    const Tensor rows = ops_.activation({tokens.shape[1], tokens_.shape[1]});
    for_rows(positions_.value, rows, [&](View table, View own) { ops_.copy(table, own); });
    ops_.embedding_forward(tokens, tokens_.value, rows, x);
    stash.of<Saved>(this).tokens = tokens;
    return x;
  }
  void backward_input(Tensor dx, Stash& stash) override {
    stash.saved<Saved>(this).dx = std::move(dx);
  }
  void backward_weight(Stash& stash) override {
    const Saved& saved = stash.saved<Saved>(this);
    if (!tokens_.frozen) {
      const Tensor rows = ops_.activation({saved.tokens.shape[1], tokens_.shape[1]});
      for_rows(positions_.gradient, rows, [&](View table, View own) { ops_.copy(table, own); });
      ops_.embedding_backward(saved.tokens, saved.dx, tokens_.gradient, rows);
      for_rows(positions_.gradient, rows, [&](View table, View own) { ops_.copy(own, table); });
    }
    stash.drop(this);
  }
  void collect(std::vector<Parameter*>& parameters) override {
    parameters.insert(parameters.end(), {&tokens_, &positions_});
  }
  Parameter& table() override { return tokens_; }

 private:
  struct Saved {
    View tokens;
    Tensor dx;
  };

  /// Calls visit(rows of the whole table, rows of the rank's own table) for each range of
  /// positions.
  template <class Visit>
  void for_rows(View table, View own, const Visit& visit) const {
    const std::int64_t h = table.shape.last();
    std::int64_t first = 0;
    for (const auto& [begin, end] : own_) {
      const std::int64_t count = end - begin;
      const auto rows = [&](View view, std::int64_t from) {
        return view.reshaped({view.elements()}).columns(from * h, count * h);
      };
      visit(rows(table, begin), rows(own, first));
      first += count;
    }
  }

  Ops ops_;
  std::vector<Positions> own_;
  Parameter tokens_, positions_;
};

/// Builds GPT-2 with each sequence divided among the ranks of the cp axis. Only attention and the
/// position embedding differ from ModelBuilder's layers; the loss is a sum over tokens. On one
/// device, it builds ModelBuilder's layers.
class ContextParallel : public ModelBuilder {
 public:
  explicit ContextParallel(ContextMethod method) : method_(method) {}

  std::unique_ptr<TokenLayer> embedding(const LayerSite& site) const override {
    Group* ranks = site.group(Axis::cp);
    if (ranks == nullptr) return ModelBuilder::embedding(site);
    return std::make_unique<ContextEmbedding>(site, *ranks);
  }

  std::unique_ptr<Layer> attention_core(const LayerSite& site) const override {
    Group* ranks = site.group(Axis::cp);
    if (ranks == nullptr) return ModelBuilder::attention_core(site);
    switch (method_) {
      case ContextMethod::ulysses:
        return std::make_unique<UlyssesAttention>(site, *ranks, heads(site));
      case ContextMethod::gather:
        return std::make_unique<GatheredAttention>(site, *ranks, heads(site));
      default:
        return std::make_unique<RingAttention>(site, *ranks, heads(site));
    }
  }

 private:
  ContextMethod method_;
};

}  // namespace lockstep
