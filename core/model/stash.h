#pragma once

#include <memory>
#include <stdexcept>
#include <unordered_map>
#include <utility>

namespace lockstep {

/// What one microbatch remembers between its forward and its backward: for each layer, a struct of
/// the layer's own choosing. A pipeline holds several at once, one per microbatch in flight.
/// Move-only. The layers that wrote to it must outlive it, or at least not move.
class Stash {
 public:
  Stash() = default;
  Stash(Stash&&) = default;
  Stash& operator=(Stash&&) = default;

  /// What `layer` saved, as a Saved; made empty at first use. Throws std::logic_error where the
  /// layer saved something of another type.
  template <class Saved>
  Saved& of(const void* layer) {
    std::unique_ptr<Entry>& entry = entries_[layer];
    if (!entry) entry = std::make_unique<Holder<Saved>>();
    return as<Saved>(entry.get())->value;
  }

  /// What `layer` saved in forward. Throws std::logic_error where it saved nothing: backward
  /// without forward, or twice.
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

  /// Releases what `layer` saved; nothing where there is nothing.
  void drop(const void* layer) { entries_.erase(layer); }
  void clear() { entries_.clear(); }
  /// True once every layer has dropped what it saved: backward is complete.
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

  std::unordered_map<const void*, std::unique_ptr<Entry>> entries_;
};

}  // namespace lockstep
