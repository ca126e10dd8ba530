#pragma once

#include <map>
#include <vector>

#include "core/model/ops.h"
#include "lessons/03_zero_1/zero_1.h"

namespace lockstep {

/// Gradients that exist in full only while the backward pass computes them. A bucket is allocated
/// when backward reaches its first unit and reduce-scattered when backward has left its last one.
/// Each rank then keeps its own shard of the sum and frees the bucket.
///
/// The backward pass fills a bucket while the previous one is in flight, so at most two buckets
/// exist in full at a time. The gradients of every microbatch are reduced, because accumulating
/// them over microbatches first would keep all gradients in memory in full. If the backward pass is
/// split into an input and a weight half (backward_input, backward_weight), a bucket stays
/// allocated until no weight half is pending.
class ShardedGradients {
 public:
  void before_backward(const Unit& unit) {
    for (const std::size_t b : layout_.buckets_of(unit.index)) enter(b, unit.index);
  }

  void after_backward(const Unit& unit) {
    for (const std::size_t b : layout_.buckets_of(unit.index)) leave(b, unit.index);
  }

 private:
  /// Call before backward runs a unit of bucket b. The first unit allocates the bucket.
  void enter(std::size_t b, int unit) {
    const FlatLayout::Bucket& bucket = layout_.buckets()[b];
    if (bucket.frozen || unit != bucket.first_unit()) return;
    Filling& filling = filling_[b];
    if (++filling.passes > 1) return;  // another microbatch's weight half is still pending
    // The previous microbatch's last reduction may still be in flight after this microbatch's
    // forward pass.
    if (in_flight_.full && in_flight_.bucket >= b) wait();
    filling.full = zeros(device_, bucket.elements, MemoryCategory::gradients, bucket.dtype, "full");
    put_gradients(model_, bucket, filling.full);
    record_memory(device_);
  }

  /// Call after backward has run a unit of bucket b. The last unit starts the reduction.
  void leave(std::size_t b, int unit) {
    const FlatLayout::Bucket& bucket = layout_.buckets()[b];
    if (bucket.frozen || unit != bucket.last_unit() || --filling_[b].passes > 0) return;
    put_gradients(model_, bucket, {});
    wait();
    in_flight_ = {.bucket = b, .full = std::move(filling_[b].full), .work = {}};
    in_flight_.work = ranks_.reduce_scatter(in_flight_.full);
  }

 public:
  /// Waits until every bucket is reduced; shard() then returns the sums over ranks.
  void wait() {
    if (!in_flight_.full) return;
    in_flight_.work.wait();
    const View sum = shard(in_flight_.bucket);
    Ops{device_, -1}.add(sum, ranks_.chunk(in_flight_.full, ranks_.rank()), sum);
    in_flight_.full.reset();
    record_memory(device_);
  }

  /// The model's gradients must have no storage (Storage::none). Model, group and layout must
  /// outlive this object.
  ShardedGradients(Gpt& model, Group& ranks, const FlatLayout& layout)
      : model_(model), device_(model.device()), ranks_(ranks), layout_(layout) {
    for (const FlatLayout::Bucket& bucket : layout.buckets()) {
      const std::int64_t elements = bucket.frozen ? 0 : bucket.elements / layout.shards();
      shards_.push_back(
          zeros(device_, elements, MemoryCategory::gradients, bucket.dtype, "shards"));
    }
  }

  /// This rank's shard of a bucket's gradients.
  View shard(std::size_t bucket) const { return shards_[bucket]; }
  void zero() {
    for (const Tensor& shard : shards_) fill_with_zeros(device_, shard);
  }

 private:
  struct Filling {
    int passes = 0;  ///< microbatches whose backward pass has begun but not ended
    Tensor full;
  };
  struct InFlight {
    std::size_t bucket = 0;
    Tensor full;
    Work work;
  };

  Gpt& model_;
  Device device_;
  Group& ranks_;
  const FlatLayout& layout_;
  std::vector<Tensor> shards_;              ///< by bucket; empty if frozen
  std::map<std::size_t, Filling> filling_;  ///< by bucket
  InFlight in_flight_;
};

/// ZeRO stage 2 (Rajbhandari 2020, section 5.2): ZeRO-1 in which each rank also keeps only its own
/// shard of the gradients.
class Zero2 : public LayerHooks {
 public:
  void before_backward(const Unit& unit) override { gradients_.before_backward(unit); }
  void after_backward(const Unit& unit) override { gradients_.after_backward(unit); }

  /// Call this after the backward pass. Each rank then holds the sum of its own shard's gradients.
  void wait() { gradients_.wait(); }
  /// Call this after the update. Every rank then holds the same updated parameters.
  void gather() {
    std::vector<Work> gathers;
    for (std::size_t b = 0; b < values_.size(); ++b)
      if (!layout_.buckets()[b].frozen) gathers.push_back(ranks_.all_gather(values_[b]));
    for (Work& gather : gathers) gather.wait();
  }
  /// Waits, updates and gathers.
  void step() {
    wait();
    optimizer_.step();
    gather();
  }

  /// Takes a model without storage (Storage::none) and allocates its values in flat buckets; `seed`
  /// determines the initial values. Model and group must outlive this object.
  Zero2(Gpt& model, Group& ranks, std::int64_t bucket_bytes, const AdamWOptions& options,
        std::uint64_t seed)
      : Zero2(model, ranks, bucket_bytes, seed) {
    optimizer_.begin(model.device(), options);
  }
  /// Creates no optimizer: the caller uses its own to update parts().
  Zero2(Gpt& model, Group& ranks, std::int64_t bucket_bytes, std::uint64_t seed)
      : model_(model),
        ranks_(ranks),
        layout_(model.stored_units(), ranks.size(), bucket_bytes),
        gradients_(model, ranks, layout_) {
    for (std::size_t b = 0; b < layout_.buckets().size(); ++b) {
      const FlatLayout::Bucket& bucket = layout_.buckets()[b];
      Tensor& values = values_.emplace_back(
          zeros(model.device(), bucket.elements, MemoryCategory::parameters, bucket.dtype));
      make_values(model, bucket, values, seed);
      optimizer_.add_shard(model, layout_, bucket, ranks.rank(), ranks.chunk(values, ranks.rank()),
                           gradients_.shard(b));
    }
    hooks_ = HookScope{model, *this};
  }
  ~Zero2() override {
    for (const FlatLayout::Bucket& bucket : layout_.buckets()) {
      put_values(model_, bucket, {});
      put_gradients(model_, bucket, {});
    }
  }

  void zero_gradients() {
    model_.zero_gradients();  // clears a tied head's separate gradient
    gradients_.zero();
  }

  const FlatLayout& layout() const { return layout_; }
  /// This rank's shard of a bucket's gradients.
  View gradient_shard(std::size_t bucket) const { return gradients_.shard(bucket); }
  /// This rank's parts of the parameters.
  const std::vector<Parameter*>& parts() const { return optimizer_.parts(); }
  AdamW& adamw() { return optimizer_.adamw(); }

 private:
  Gpt& model_;
  Group& ranks_;
  FlatLayout layout_;
  ShardedGradients gradients_;
  std::vector<Tensor> values_;  ///< by bucket
  ShardedAdamW optimizer_;
  HookScope hooks_;
};

}  // namespace lockstep
