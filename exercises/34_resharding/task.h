#pragma once

#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Returns this rank's new shard of a flat vector of P parameters that is divided into N shards now
/// and into M shards afterwards.
///
/// With N shards, each has s = P / N numbers, rounded up. Shard r holds numbers r s to
/// (r + 1) s - 1 of the padded vector: parameters 0 to P - 1, followed by padding up to N s
/// numbers. The same holds for M shards, with a different s and different padding.
///
/// Called on each of max(N, M) ranks. On rank r, `old` is shard r of N, or empty if r is not less
/// than N. Its padding may contain any numbers. Returns shard r of M, whose padding is 0, or an
/// empty Buffer if r is not less than M.
///
/// A rank sends to each other rank exactly the parameters that its old shard and the other's new
/// shard have in common: no padding, nothing via a third rank, and nothing to itself. If they have
/// none in common, no message is sent, not even an empty one. At any time, a rank's Buffers hold at
/// most as many numbers as its old and its new shard have together.
Buffer reshard(World& world, std::size_t P, int N, int M, Buffer old);

}  // namespace lockstep::exercises
