#pragma once

#include <algorithm>
#include <deque>
#include <stdexcept>
#include <vector>

#include "lessons/04_zero_2/zero_2.h"

namespace lockstep {

/// Parameters that exist in full only while they are used, in the terms of PyTorch's FSDP. Each
/// rank keeps its own shard of every bucket. The ranks **unshard** a bucket (all-gather it) before
/// its layers run, and **reshard** it (free the gathered values) afterwards.
///
/// A microbatch uses the buckets in a known order: forward from the first unit to the last, then
/// backward. Each use has its own all-gather, so the ranks can **prefetch** the buckets of the next
/// uses: the all-gathers of these buckets are in flight while a layer computes.
class ShardedParameters {
 public:
  /// The model must have no storage for its values (Storage::none); `seed` determines the initial
  /// values. Model, group and layout must outlive this object.
  ShardedParameters(Gpt& model, Group& ranks, const FlatLayout& layout, std::uint64_t seed)
      : model_(model),
        device_(model.device()),
        ranks_(ranks),
        layout_(layout),
        uses_(uses_of(model.stored_units(), layout)) {
    for (const FlatLayout::Bucket& bucket : layout.buckets()) {
      Tensor& shard =
          shards_.emplace_back(zeros(device_, bucket.elements / layout.shards(),
                                     MemoryCategory::parameters, bucket.dtype, "shards"));
      for (const Parameter& part : parts_of_shard(model, layout, bucket, ranks.rank(), shard, {}))
        part.fill_initial(device_, seed);
    }
  }

  /// Sets the number of uses to prefetch.
  void set_prefetch(int uses) { prefetch_ = static_cast<std::size_t>(uses); }

  /// Makes the unit's parameters available in full. Call it before each unit's forward or backward,
  /// in the order of Gpt::forward and Gpt::backward; any other order throws std::logic_error.
  void unshard(const Unit& unit) {
    if (uses_[use_].units.at(unit_) != unit.index)
      throw std::logic_error{"ShardedParameters: a unit ran out of the order of its pass"};
    if (unit_ == 0) {  // first unit of a use: wait for its buckets, prefetch those of the next uses
      const std::size_t last = std::min(use_ + prefetch_, end_ - 1);
      while (started_ <= last) start_unshard(uses_[started_++]);
      for (Unsharded& bucket : unsharded_.front()) {
        bucket.work.wait();
        put(bucket.bucket, bucket.values);
      }
    }
    ++unit_;
  }

  /// Frees the full parameters after the last unit of a use. Call it after each unit.
  void reshard() {
    if (unit_ < uses_[use_].units.size()) return;
    for (Unsharded& bucket : unsharded_.front()) put(bucket.bucket, {});
    unsharded_.pop_front();
    record_memory(device_);
    unit_ = 0;
    if (++use_ == uses_.size()) use_ = started_ = 0;  // next microbatch
  }

  /// Skips to a use, whose buckets must be the next to be unsharded, and prefetches only before
  /// `end` from now on. Buckets that were prefetched for other uses are resharded unused.
  void skip_to(std::size_t use, std::size_t end) {
    end_ = end;
    if (use == use_) return;
    for (std::vector<Unsharded>& prefetched : unsharded_)
      for (Unsharded& bucket : prefetched) bucket.work.wait();
    unsharded_.clear();
    use_ = started_ = use;
  }

  /// This rank's shard of a bucket's values.
  View shard(std::size_t bucket) const { return shards_[bucket]; }

  /// Consecutive units that are unsharded together, and the buckets that hold their parameters.
  struct Use {
    std::vector<int> units;  ///< Unit::index
    std::vector<std::size_t> buckets;
  };
  const std::vector<Use>& uses() const { return uses_; }

  /// Returns the uses of one microbatch, in order. Adjacent units in the same bucket are one use.
  /// A tied head's use includes the token table's bucket, although that bucket is unsharded for the
  /// embedding as well.
  static std::vector<Use> uses_of(const std::vector<StoredUnit>& units, const FlatLayout& layout) {
    std::vector<Use> forward;
    for (const StoredUnit& unit : units) {
      const std::vector<std::size_t> buckets = layout.buckets_of(unit.index);
      if (forward.empty() || buckets.size() > 1 ||
          forward.back().buckets.front() != buckets.front())
        forward.push_back({.units = {}, .buckets = buckets});
      Use& use = forward.back();
      use.units.push_back(unit.index);
      for (const StoredParameter& parameter : unit.parameters)
        if (const std::size_t lies_in = layout.bucket_holding(parameter.order);
            std::ranges::count(use.buckets, lies_in) == 0)
          use.buckets.push_back(lies_in);
    }
    std::vector<Use> all = forward;
    all.insert(all.end(), forward.rbegin(), forward.rend());
    for (std::size_t i = forward.size(); i < all.size(); ++i) std::ranges::reverse(all[i].units);
    return all;
  }

 private:
  struct Unsharded {
    std::size_t bucket = 0;
    Tensor values;
    Work work;
  };

  void start_unshard(const Use& use) {
    std::vector<Unsharded>& buckets = unsharded_.emplace_back();
    for (const std::size_t b : use.buckets) {
      const FlatLayout::Bucket& bucket = layout_.buckets()[b];
      Tensor values{device_.memory, {bucket.elements}, MemoryCategory::parameters, bucket.dtype};
      values.call("gathered buckets");
      copy(shards_[b], ranks_.chunk(values, ranks_.rank()));
      Work work = ranks_.all_gather(values);
      buckets.push_back({b, std::move(values), std::move(work)});
    }
    record_memory(device_);
  }
  /// Points the model's parameters into a bucket's values or, if `values` is empty, nowhere, and
  /// records the change in the trace.
  void put(std::size_t bucket, View values) {
    put_values(model_, layout_.buckets()[bucket], values);
    record_whole_values(model_, layout_.buckets()[bucket], static_cast<bool>(values));
  }
  void copy(View from, View to) const {
    device_.compute.launch(Span{.name = "copy"}, {.bytes = 2 * static_cast<double>(from.bytes())},
                           [&](const Kernels& k, Queue q) { k.copy(q, from, to); });
  }

  Gpt& model_;
  Device device_;
  Group& ranks_;
  const FlatLayout& layout_;
  std::vector<Use> uses_;
  std::size_t prefetch_ = 1;
  std::size_t end_ = uses_.size();  ///< of the uses for which to prefetch
  std::vector<Tensor> shards_;      ///< by bucket

  std::size_t use_ = 0;      ///< index of the current use
  std::size_t unit_ = 0;     ///< number of this use's units unsharded so far
  std::size_t started_ = 0;  ///< number of uses whose all-gathers have started
  std::deque<std::vector<Unsharded>> unsharded_{};  ///< from use_ on; at most 1 + prefetch uses
};

/// ZeRO stage 3 (Rajbhandari 2020, section 5.3), called fully sharded data parallel in PyTorch:
/// parameters, gradients and optimizer states are all sharded.
class Zero3 : public LayerHooks {
 public:
  /// The model must have no storage (Storage::none), so that no rank ever holds the whole model;
  /// `seed` determines the initial values. Model and group must outlive this object.
  Zero3(Gpt& model, Group& ranks, std::int64_t bucket_bytes, const AdamWOptions& options,
        std::uint64_t seed)
      : Zero3(model, ranks, bucket_bytes, seed) {
    optimizer_.begin(model.device(), options);
  }
  /// Creates no optimizer: the caller uses its own to update parts().
  Zero3(Gpt& model, Group& ranks, std::int64_t bucket_bytes, std::uint64_t seed)
      : model_(model),
        layout_(model.stored_units(), ranks.size(), bucket_bytes),
        parameters_(model, ranks, layout_, seed),
        gradients_(model, ranks, layout_) {
    for (std::size_t b = 0; b < layout_.buckets().size(); ++b)
      optimizer_.add_shard(model, layout_, layout_.buckets()[b], ranks.rank(), parameters_.shard(b),
                           gradients_.shard(b));
    hooks_ = HookScope{model, *this};
  }
  ~Zero3() override {
    for (const FlatLayout::Bucket& bucket : layout_.buckets()) {
      put_values(model_, bucket, {});
      put_gradients(model_, bucket, {});
    }
  }

  /// Sets the number of uses to prefetch.
  void set_prefetch(int uses) { parameters_.set_prefetch(uses); }

  void before_forward(const Unit& unit) override { parameters_.unshard(unit); }
  void after_forward(const Unit&) override { parameters_.reshard(); }
  void before_backward(const Unit& unit) override {
    parameters_.unshard(unit);
    gradients_.before_backward(unit);
  }
  void after_backward_input(const Unit&) override { parameters_.reshard(); }
  void after_backward(const Unit& unit) override { gradients_.after_backward(unit); }

  void zero_gradients() {
    model_.zero_gradients();  // clears a tied head's separate gradient
    gradients_.zero();
  }

  /// Call this after the backward pass. Each rank then holds the sum of its own shard's gradients.
  void wait() { gradients_.wait(); }
  /// Does nothing after the update: ranks unshard parameters when they use them.
  void gather() {}
  /// Waits, then updates.
  void step() {
    wait();
    optimizer_.step();
  }

  const FlatLayout& layout() const { return layout_; }
  /// This rank's shard of a bucket's gradients.
  View gradient_shard(std::size_t bucket) const { return gradients_.shard(bucket); }
  /// This rank's parts of the parameters.
  const std::vector<Parameter*>& parts() const { return optimizer_.parts(); }
  AdamW& adamw() { return optimizer_.adamw(); }

 protected:
  ShardedParameters& parameters() { return parameters_; }

 private:
  Gpt& model_;
  FlatLayout layout_;
  ShardedParameters parameters_;
  ShardedGradients gradients_;
  ShardedAdamW optimizer_;
  HookScope hooks_;
};

}  // namespace lockstep
