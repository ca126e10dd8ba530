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

/// Builds a model with each sequence divided among the ranks of the cp axis. Only attention and the
/// rows of GPT-2's position table differ from the layers of `Base`; the loss is a sum over tokens.
/// On one device, it builds the layers of `Base`.
template <class Base = ModelBuilder>
class ContextParallel : public Base {
 public:
  template <class... Arguments>
  explicit ContextParallel(ContextMethod method, Arguments&&... base)
      : Base(std::forward<Arguments>(base)...), method_(method) {}

  /// Every rank holds the whole position table, and uses the rows of its own positions.
  std::vector<Positions> positions(const LayerSite& site) const override {
    const Group* ranks = site.group(Axis::cp);
    if (ranks == nullptr) return Base::positions(site);
    return context_positions(site.context, site.config.sequence, ranks->rank(), ranks->size());
  }

  std::unique_ptr<Layer> attention_core(const LayerSite& site) const override {
    Group* ranks = site.group(Axis::cp);
    if (ranks == nullptr) return Base::attention_core(site);
    const Heads heads = this->heads(site);
    switch (method_) {
      case ContextMethod::ulysses:
        return std::make_unique<UlyssesAttention>(site, *ranks, heads);
      case ContextMethod::gather:
        return std::make_unique<GatheredAttention>(site, *ranks, heads);
      default:
        return std::make_unique<RingAttention>(site, *ranks, heads);
    }
  }

 private:
  ContextMethod method_;
};

}  // namespace lockstep
