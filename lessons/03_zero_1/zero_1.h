#pragma once

#include <vector>

#include "core/comm/group.h"
#include "lessons/03_zero_1/sharded_adamw.h"

namespace lockstep {

/// ZeRO stage 1 (Rajbhandari 2020, section 5.1): data parallelism in which each of N ranks keeps
/// the optimizer states of its own 1/N of the parameters, and updates only those.
///
/// An all-reduce is a reduce-scatter followed by an all-gather. After the reduce-scatter every rank
/// holds the complete gradient of one shard, which is enough to update that shard. ZeRO-1 therefore
/// updates between the two: reduce-scatter the gradients, update, all-gather the parameters. The
/// number of bytes sent stays the same.
class Zero1 : public LayerHooks {
 public:
  /// Overlaps communication with the backward pass as data parallelism does, but each rank receives
  /// only the sum of its own shard.
  void gradients_ready(const Unit& unit) override {
    for (const std::size_t b : layout_.buckets_of(unit.index)) {
      Bucket& flat = buckets_[b];
      if (flat.gradients && unit.index == layout_.buckets()[b].last_unit())
        flat.work = ranks_.reduce_scatter(flat.gradients);
    }
  }

  /// Call this after the backward pass. Each rank then holds the sum of its own shard's gradients.
  void wait() {
    for (Bucket& flat : buckets_) flat.work.wait();
  }
  /// Call this after the update. Every rank then holds the same updated parameters.
  void gather() {
    for (Bucket& flat : buckets_)
      if (flat.gradients) flat.work = ranks_.all_gather(flat.values);
    for (Bucket& flat : buckets_) flat.work.wait();
  }
  /// Waits, updates and gathers.
  void step() {
    wait();
    optimizer_.step();
    gather();
  }

  /// Takes a model without storage (Storage::none) and allocates its values and gradients in flat
  /// buckets; `seed` determines the initial values. Model and group must outlive this object.
  Zero1(Gpt& model, Group& ranks, std::int64_t bucket_bytes, const AdamWOptions& options,
        std::uint64_t seed)
      : Zero1(model, ranks, bucket_bytes, seed) {
    optimizer_.begin(model.device(), options);
  }
  /// Creates no optimizer: the caller uses its own to update parts().
  Zero1(Gpt& model, Group& ranks, std::int64_t bucket_bytes, std::uint64_t seed)
      : model_(model), ranks_(ranks), layout_(model.stored_units(), ranks.size(), bucket_bytes) {
    for (const FlatLayout::Bucket& bucket : layout_.buckets()) {
      Bucket& flat = buckets_.emplace_back();
      const auto make = [&](MemoryCategory category) {
        return zeros(model.device(), bucket.elements, category, bucket.dtype);
      };
      flat.values = make(MemoryCategory::parameters);
      make_values(model, bucket, flat.values, seed);
      if (!bucket.frozen) {
        flat.gradients = make(MemoryCategory::gradients);
        put_gradients(model, bucket, flat.gradients);
      }
      optimizer_.add_shard(model, layout_, bucket, ranks.rank(),
                           ranks.chunk(flat.values, ranks.rank()),
                           gradient_shard(buckets_.size() - 1));
    }
    hooks_ = HookScope{model, *this};
  }
  ~Zero1() override {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      buckets_[b].work = {};
      put_values(model_, layout_.buckets()[b], {});
      put_gradients(model_, layout_.buckets()[b], {});
    }
  }

  void zero_gradients() { model_.zero_gradients(); }

  const FlatLayout& layout() const { return layout_; }
  /// This rank's shard of a bucket's gradients; empty if the bucket is frozen.
  View gradient_shard(std::size_t bucket) const {
    const Tensor& gradients = buckets_[bucket].gradients;
    return gradients ? ranks_.chunk(gradients, ranks_.rank()) : View{};
  }
  /// This rank's parts of the parameters.
  const std::vector<Parameter*>& parts() const { return optimizer_.parts(); }
  AdamW& adamw() { return optimizer_.adamw(); }

 private:
  struct Bucket {
    Tensor values;
    Tensor gradients;  ///< empty if frozen
    Work work;
  };

  Gpt& model_;
  Group& ranks_;
  FlatLayout layout_;
  std::vector<Bucket> buckets_;  ///< in the layout's order
  ShardedAdamW optimizer_;
  HookScope hooks_;
};

}  // namespace lockstep
