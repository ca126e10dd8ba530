#pragma once

#include <functional>

#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Computes the attention of this rank's c queries to one block of keys and values, as large as
/// that of any rank. Overwrites `y` (c x d numbers: for each query, the mean of the values,
/// weighted with the softmax of its scores) and `lse` (c numbers: the log-sum-exp of these scores).
/// Computes for T µs, the same on all ranks.
using Attend = std::function<void(std::span<const float> keys_values, std::span<float> y,
                                  std::span<float> lse)>;

/// You can use this function. It merges the attention to some keys, `y_part` and `lse_part`, into
/// the attention to others, `y` and `lse`. An lse of -infinity means no keys. Takes no time.
/// (Exercise 19 asks how it works.)
void merge(std::span<float> y, std::span<float> lse, std::span<const float> y_part,
           std::span<const float> lse_part);

/// Ring attention, the forward pass: leaves in `y` and `lse` the attention of this rank's queries
/// to the keys and values of all N ranks. Their previous contents do not matter. There is no mask.
/// `own` is this rank's block of keys and values, n numbers on each rank; it may be changed.
///
/// Calls `attend` once for each block. Each rank sends N - 1 messages of one block. At any time, a
/// rank's Buffers hold at most two blocks (including `own` or its replacement) and one partial
/// result of the sizes of y and lse; elsewhere, such as in a std::vector, it holds at most one more
/// partial result. All memory for blocks is from world.allocate().
///
/// A message takes H = 1 µs + n · 4 ns, and the whole attention takes (N - 1) max(T, H) + T.
void ring_attention(World& world, const Attend& attend, Buffer own, std::span<float> y,
                    std::span<float> lse);

}  // namespace lockstep::exercises
