#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "core/model/adamw.h"
#include "core/model/flat_buffer.h"

namespace lockstep {

/// The optimizer for the shards that one rank owns, with momentum and variance for 1/N of all
/// parameters. AdamW updates each element independently, so a rank needs no other shards to update
/// its own.
class ShardedAdamW {
 public:
  /// Adds `rank`'s shard of a bucket (see parts_of_shard).
  void add_shard(const Gpt& model, const FlatLayout& layout, const FlatLayout::Bucket& bucket,
                 int rank, View values, View gradients) {
    for (Parameter& part : parts_of_shard(model, layout, bucket, rank, values, gradients))
      pointers_.push_back(&parts_.emplace_back(std::move(part)));
  }
  /// Call once, after all shards have been added.
  void begin(Device device, const AdamWOptions& options) {
    adamw_.emplace(pointers_, device, options);
  }

  void step() { adamw_->step(1); }
  AdamW& adamw() { return *adamw_; }
  /// This rank's parts of the parameters, frozen ones included.
  const std::vector<Parameter*>& parts() const { return pointers_; }

 private:
  std::deque<Parameter> parts_;
  std::vector<Parameter*> pointers_;
  std::optional<AdamW> adamw_;
};

}  // namespace lockstep
