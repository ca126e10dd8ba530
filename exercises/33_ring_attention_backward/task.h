#pragma once

#include <functional>

#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// This rank's c queries, and the results that the forward pass has left of their attention to the
/// keys of all ranks. The score of a query and a key is their dot product.
struct Queries {
  std::span<const float> q;    ///< c rows of d numbers
  std::span<const float> y;    ///< c x d: the result of the forward pass
  std::span<const float> dy;   ///< c x d: the loss's gradient with respect to y
  std::span<const float> lse;  ///< c: the log-sum-exp of each query's scores, over all keys
};

/// Part 1, for you to write: the backward pass of the attention of these queries to one block of
/// keys and values: c keys, a row of d numbers each, followed by their c values, also d numbers
/// each. `D` is the dot product of y and dy for each query. With the probabilities p = exp(score -
/// lse),
///
///     dp = dy · value,   ds = p (dp - D),
///     dq += ds key,   dkey += ds query,   dvalue += p dy.
///
/// Adds this block's part to `dq` (c x d), and this rank's queries' part to `gradients`, which has
/// the layout of the block: dkey, then dvalue.
void attend_backward(const Queries& queries, std::span<const float> D,
                     std::span<const float> keys_values, std::span<float> dq,
                     std::span<float> gradients);

/// Calls your attend_backward() with this rank's queries. Computes for T µs.
using AttendBackward =
    std::function<void(std::span<const float> D, std::span<const float> keys_values,
                       std::span<float> dq, std::span<float> gradients)>;

/// Part 2, for you to write: the backward pass of ring attention. Adds the gradient of this rank's
/// queries to `dq`, and the gradients of this rank's keys and values, summed over the queries of
/// all N ranks, to `gradients`. Both contain zeros when the function is called. `own` is this
/// rank's block of keys and values, n numbers on each rank; it may be changed.
///
/// Calls `attend` once for each of the N blocks. Each rank sends to its two neighbours only: at
/// most N - 1 blocks of keys and values, and at most N blocks of gradients. A single rank sends
/// nothing. At any time, a rank's Buffers hold at most five blocks of n numbers (including `own` or
/// its replacement) and c more numbers. All memory for blocks is from world.allocate():
/// elsewhere, such as in a std::vector, a rank holds at most half a block and c numbers. (What
/// attend_backward() allocates does not count.)
///
/// A hop takes H = 1 µs + n · 4 ns, and a rank's messages leave one after another. T is at least
/// 2 H, and the whole backward pass takes N T + H, or T if N = 1.
void ring_attention_backward(World& world, const AttendBackward& attend, const Queries& queries,
                             Buffer own, std::span<float> dq, std::span<float> gradients);

}  // namespace lockstep::exercises
