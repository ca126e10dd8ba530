#pragma once

#include <memory>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "core/model/microbatch.h"

namespace lockstep {

/// The tensors that one microbatch keeps between its forward and backward passes: for each layer, a
/// struct that the layer defines. A pipeline holds several stashes at once, one per microbatch in
/// flight. Move-only. Entries are keyed by the layer's address, so a layer must not move while it
/// has an entry.
class Stash {
 public:
  Stash() = default;
  /// An empty stash for the tensors of `microbatch`.
  explicit Stash(const Microbatch& microbatch) : microbatch_(microbatch) {}
  Stash(Stash&&) = default;
  Stash& operator=(Stash&&) = default;

  /// The microbatch whose tensors these are; Gpt::forward sets it. Layers use it to find a token's
  /// position in its text.
  const Microbatch& microbatch() const { return microbatch_; }
  void set_microbatch(const Microbatch& microbatch) { microbatch_ = microbatch; }

  /// Returns the entry of `layer`, which is created on first use. Throws std::logic_error if the
  /// entry has another type.
  template <class Saved>
  Saved& of(const void* layer) {
    std::unique_ptr<Entry>& entry = entries_[layer];
    if (!entry) entry = std::make_unique<Holder<Saved>>();
    return as<Saved>(entry.get())->value;
  }

  /// Returns the entry that `layer` saved in the forward pass. Throws std::logic_error if there is
  /// none, which means that backward() ran without forward(), or ran twice.
  template <class Saved>
  Saved& saved(const void* layer) {
    return const_cast<Saved&>(std::as_const(*this).template saved<Saved>(layer));
  }
  template <class Saved>
  const Saved& saved(const void* layer) const {
    const auto found = entries_.find(layer);
    if (found == entries_.end())
      throw std::logic_error{"a layer's backward found nothing in the stash: no forward before it"};
    return as<Saved>(found->second.get())->value;
  }

  /// Releases the entry of `layer`, if any.
  void drop(const void* layer) { entries_.erase(layer); }
  void clear() { entries_.clear(); }
  /// Returns whether every layer has dropped its entry, so that no backward pass is pending.
  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    virtual ~Entry() = default;
  };
  template <class Saved>
  struct Holder : Entry {
    Saved value{};
  };
  template <class Saved>
  static Holder<Saved>* as(Entry* entry) {
    auto* holder = dynamic_cast<Holder<Saved>*>(entry);
    if (holder == nullptr) throw std::logic_error{"a layer's stash holds another type"};
    return holder;
  }

  Microbatch microbatch_;
  std::unordered_map<const void*, std::unique_ptr<Entry>> entries_;
};

}  // namespace lockstep
