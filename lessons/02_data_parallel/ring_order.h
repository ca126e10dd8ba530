#pragma once

#include "core/plan/flat_layout.h"
#include "core/plan/sum_order.h"
#include "lessons/02_data_parallel/data_parallel.h"

namespace lockstep {

/// Returns the order in which a ring adds gradients: the sum of chunk i starts with member i + 1.
/// If a single device adds in this order, its results are bitwise identical to the replicas'.
inline SumOrder ring_order(const FlatLayout& layout, GradientSync sync) {
  SumOrder order;
  const int n = layout.shards();
  for (const FlatLayout::Bucket& bucket : layout.buckets()) {
    if (bucket.frozen) continue;
    for (int i = 0; i < n; ++i) {
      const int begin = (i + 1) % n;
      if (sync != GradientSync::none) {
        for (const FlatLayout::Piece& piece : layout.shard(bucket, i))
          order.segments.push_back(
              {bucket.slots[piece.slot].parameter.order, FlatLayout::slice(bucket, piece), begin});
        continue;
      }
      for (const FlatLayout::Slot& slot : bucket.slots) {  // each tensor has its own n chunks
        const std::int64_t all = slot.elements(), more = all % n;
        const std::int64_t first = i * (all / n) + std::min<std::int64_t>(i, more);
        order.segments.push_back({slot.parameter.order,
                                  slot.parameter.slice.range(first, all / n + (i < more ? 1 : 0)),
                                  begin});
      }
    }
  }
  return order;
}

/// Returns the order for ZeRO-2 and ZeRO-3: a ring's order for each microbatch separately, because
/// these stages reduce every microbatch's gradients.
inline SumOrder ring_order_by_microbatch(const FlatLayout& layout) {
  SumOrder order = ring_order(layout, GradientSync::overlap);
  order.every_microbatch = true;
  return order;
}

}  // namespace lockstep
