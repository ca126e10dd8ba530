#pragma once

#include <map>
#include <vector>

#include "core/model/ops.h"
#include "lessons/03_zero_1/zero_1.h"

namespace lockstep {

/// Gradients that exist in full only while backward computes them. A bucket is allocated when
/// backward reaches it, reduce-scattered when backward has left it, and then freed; only this
/// rank's shard of the sum remains.
///
/// A bucket is filled while the previous one is in flight, so at most two exist in full at a time.
/// With several microbatches, each microbatch's gradients are reduced: accumulating them until the
/// last would keep full gradients in memory. If the halves of backward run separately, a bucket
/// stays allocated until no weight half is pending.
class ScatteredGradients {
 public:
  /// The model's gradients must have no storage (Storage::none). All arguments must outlive this
  /// object.
  ScatteredGradients(Gpt& model, Group& ranks, const FlatLayout& layout)
      : model_(model), device_(model.device()), ranks_(ranks), layout_(layout) {
    for (const FlatLayout::Bucket& bucket : layout.buckets()) {
      const std::int64_t shard = bucket.frozen ? 0 : bucket.elements / layout.shards();
      own_.push_back(zeros(device_, shard, MemoryCategory::gradients, bucket.dtype));
    }
  }

  void before_backward(const Unit& unit) {
    for (const std::size_t b : layout_.buckets_of(unit.index)) begin(b, unit.index);
  }

  void after_backward(const Unit& unit) {
    for (const std::size_t b : layout_.buckets_of(unit.index)) leave(b, unit.index);
  }

  /// Waits until every bucket is reduced; own() then holds the sums over ranks.
  void wait() {
    if (!leaving_.whole) return;
    leaving_.work.wait();
    const View sum = own(leaving_.bucket);
    Ops{device_, -1}.add(sum, ranks_.chunk(leaving_.whole, ranks_.rank()), sum);
    leaving_.whole.reset();
    record_memory(device_);
  }

  /// This rank's shard of a bucket's gradients.
  View own(std::size_t bucket) const { return own_[bucket]; }
  void zero() {
    for (const Tensor& shard : own_) fill_with_zeros(device_, shard);
  }

 private:
  /// Backward has reached a unit of the bucket.
  void begin(std::size_t b, int unit) {
    const FlatLayout::Bucket& bucket = layout_.buckets()[b];
    if (bucket.frozen || unit != bucket.first_unit()) return;
    Filling& filling = filling_[b];
    if (++filling.passes > 1) return;  // another microbatch's weight half is still pending
    // The previous microbatch's bucket was in flight during this microbatch's whole forward.
    if (leaving_.whole && leaving_.bucket >= b) wait();
    filling.whole = zeros(device_, bucket.elements, MemoryCategory::gradients, bucket.dtype);
    put_gradients(model_, bucket, filling.whole);
    record_memory(device_);
  }

  /// Backward has left a unit of the bucket.
  void leave(std::size_t b, int unit) {
    const FlatLayout::Bucket& bucket = layout_.buckets()[b];
    if (bucket.frozen || unit != bucket.last_unit() || --filling_[b].passes > 0) return;
    put_gradients(model_, bucket, {});
    wait();
    leaving_ = {.bucket = b, .whole = std::move(filling_[b].whole), .work = {}};
    leaving_.work = ranks_.reduce_scatter(leaving_.whole);
  }

  struct Filling {
    int passes = 0;  ///< microbatches whose backward has begun but not ended
    Tensor whole;
  };
  struct Leaving {
    std::size_t bucket = 0;
    Tensor whole;
    Work work;
  };

  Gpt& model_;
  Device device_;
  Group& ranks_;
  const FlatLayout& layout_;
  std::vector<Tensor> own_;                 ///< by bucket; empty if frozen
  std::map<std::size_t, Filling> filling_;  ///< by bucket
  Leaving leaving_;
};

/// ZeRO stage 2 (Rajbhandari 2020, section 5.2): each rank keeps only its own shard of the
/// gradients as well.
class Zero2 : public LayerHooks {
 public:
  /// Takes a model without storage (Storage::none) and allocates its values in flat buckets; `seed`
  /// determines the initial values. Model and group must outlive this object.
  Zero2(Gpt& model, Group& ranks, std::int64_t bucket_bytes, const AdamWOptions& options,
        std::uint64_t seed)
      : model_(model),
        ranks_(ranks),
        layout_(model.stored_units(), ranks.size(), bucket_bytes),
        gradients_(model, ranks, layout_) {
    for (std::size_t b = 0; b < layout_.buckets().size(); ++b) {
      const FlatLayout::Bucket& bucket = layout_.buckets()[b];
      Tensor& values = values_.emplace_back(
          zeros(model.device(), bucket.elements, MemoryCategory::parameters, bucket.dtype));
      make_values(model, bucket, values, seed);
      optimizer_.own(model, layout_, bucket, ranks.rank(), ranks.chunk(values, ranks.rank()),
                     gradients_.own(b));
    }
    optimizer_.begin(model.device(), options);
    hooks_ = HookScope{model, *this};
  }
  ~Zero2() override {
    for (const FlatLayout::Bucket& bucket : layout_.buckets()) {
      put_values(model_, bucket, {});
      put_gradients(model_, bucket, {});
    }
  }

  void before_backward(const Unit& unit) override { gradients_.before_backward(unit); }
  void after_backward(const Unit& unit) override { gradients_.after_backward(unit); }

  void zero_gradients() {
    model_.zero_gradients();  // clears a tied head's separate gradient
    gradients_.zero();
  }

  /// Call after backward. Each rank then has the sum of its own shard's gradients.
  void wait() { gradients_.wait(); }
  /// Waits, then updates. Every rank then has the same updated parameters.
  void step() {
    wait();
    optimizer_.step();
    std::vector<Work> gathers;
    for (std::size_t b = 0; b < values_.size(); ++b)
      if (!layout_.buckets()[b].frozen) gathers.push_back(ranks_.all_gather(values_[b]));
    for (Work& gather : gathers) gather.wait();
  }

  const FlatLayout& layout() const { return layout_; }
  /// This rank's parts of the parameters.
  const std::vector<Parameter*>& parts() const { return optimizer_.parts(); }
  AdamW& adamw() { return optimizer_.adamw(); }

 private:
  Gpt& model_;
  Group& ranks_;
  FlatLayout layout_;
  ScatteredGradients gradients_;
  std::vector<Tensor> values_;  ///< by bucket
  ShardedAdamW optimizer_;
  HookScope hooks_;
};

}  // namespace lockstep
