#pragma once

#include <set>
#include <vector>

#include "core/comm/group.h"
#include "core/model/flat_buffer.h"

namespace lockstep {

/// How the replicas sum (synchronize) their gradients: when, and in which units.
enum class GradientSync {
  none,     ///< after backward, one all-reduce per tensor
  bucket,   ///< after backward, one all-reduce per bucket of neighbouring tensors
  overlap,  ///< during backward, one per bucket as soon as its gradients are complete
};

/// Data parallelism: every rank holds the whole model and computes the gradients of its own share
/// of the batch. The loss is a mean over the whole batch. Each rank divides its share by the number
/// of tokens on all ranks, so the batch's gradient is the sum of the ranks' gradients.
class DataParallel : public LayerHooks {
 public:
  /// Call this after the backward pass. Every rank then holds the same gradients: the sum over
  /// replicas.
  void sum_gradients() {
    if (sync_ == GradientSync::none)
      for (Parameter* parameter : parameters_)
        if (!parameter->frozen) replicas_.all_reduce(parameter->gradient).wait();
    if (sync_ == GradientSync::bucket)
      for (Bucket& bucket : buckets_) start(bucket);
    for (Bucket& bucket : buckets_) bucket.work.wait();
  }

  /// Called during the last microbatch's backward pass, when this unit's gradients are complete.
  /// While the unit's bucket is in flight, the backward pass continues with the layers below.
  void gradients_ready(const Unit& unit) override {
    if (sync_ != GradientSync::overlap) return;
    for (std::size_t b = 0; b < buckets_.size(); ++b)
      if (unit.index == layout_.buckets()[b].last_unit()) start(buckets_[b]);
  }

  void set(GradientSync sync) { sync_ = sync; }

  /// One all-reduce sends about `bucket_bytes`. Until this object is destroyed, the model's
  /// gradients live in the buckets, side by side in memory. Model and group must outlive it.
  DataParallel(Gpt& model, Group& replicas, std::int64_t bucket_bytes)
      : DataParallel(model, model.stored_units(), replicas, bucket_bytes) {}
  /// Sums only the gradients of the parameters in `units`. (With experts, the replicas of a
  /// parameter depend on the parameter.)
  DataParallel(Gpt& model, const std::vector<StoredUnit>& units, Group& replicas,
               std::int64_t bucket_bytes)
      : model_(model), replicas_(replicas), layout_(units, replicas.size(), bucket_bytes) {
    std::set<int> orders;
    for (const StoredUnit& unit : units)
      for (const StoredParameter& parameter : unit.parameters) orders.insert(parameter.order);
    for (Parameter* parameter : model.parameters())
      if (orders.contains(parameter->order)) parameters_.push_back(parameter);
    for (const FlatLayout::Bucket& bucket : layout_.buckets()) {
      Bucket& flat = buckets_.emplace_back();
      if (bucket.frozen) continue;
      flat.gradients =
          zeros(model.device(), bucket.elements, MemoryCategory::gradients, bucket.dtype);
      move_gradients(model, bucket, flat.gradients);
    }
    hooks_ = HookScope{model, *this};
  }
  ~DataParallel() override {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      buckets_[b].work = {};
      if (buckets_[b].gradients) return_gradients(model_, layout_.buckets()[b]);
    }
  }

  const FlatLayout& layout() const { return layout_; }

 private:
  struct Bucket {
    Tensor gradients;  ///< empty if frozen
    Work work;
  };

  void start(Bucket& bucket) {
    if (bucket.gradients) bucket.work = replicas_.all_reduce(bucket.gradients);
  }

  Gpt& model_;
  Group& replicas_;
  FlatLayout layout_;
  std::vector<Parameter*> parameters_;
  GradientSync sync_ = GradientSync::overlap;
  std::vector<Bucket> buckets_;  ///< in the layout's order
  HookScope hooks_;
};

/// A bucket size with which all gradients are in one bucket.
constexpr std::int64_t one_bucket = std::int64_t{1} << 62;

}  // namespace lockstep
