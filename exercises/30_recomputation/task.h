#pragma once

#include <functional>

#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// The generator from which dropout draws its masks. A copy of it draws the same numbers.
struct Random {
  std::uint64_t state = 0;
};

/// A chain of L blocks. The input and the output of each block, and their gradients, have w numbers
/// each.
struct Chain {
  int blocks = 0;               ///< L
  std::size_t width = 0;        ///< w
  std::size_t activations = 0;  ///< a > w: how many numbers a block's backward pass needs
  /// Overwrites the block's input `x` with its output, and `activations` with the numbers that this
  /// block's backward pass needs. Draws the block's dropout mask from `random`, which it changes.
  std::function<void(int block, std::span<float> x, std::span<float> activations, Random& random)>
      forward;
  /// Overwrites the output of the last block with its gradient.
  std::function<void(std::span<float> y)> loss;
  /// Overwrites the gradient of the block's output, `dy`, with that of its input, and adds to the
  /// gradients of the block's weights.
  std::function<void(int block, std::span<const float> activations, std::span<float> dy)> backward;
};

/// A training step with activation checkpointing: the forward pass of all blocks, 0 to L - 1, then
/// `loss`, then the backward pass of all blocks, L - 1 to 0. Returns the gradient of `x`, the input
/// of block 0.
///
/// The forward pass keeps only the inputs of the blocks 0, k, 2 k, ... (k is at least 1). Each of
/// them begins a segment of k blocks; the last segment may be shorter. There are S = L / k
/// segments, rounded up. When the backward pass reaches a segment, the segment's blocks run forward
/// again from its input, and keep their activations. So `forward` is called twice for each block.
/// For a block of the last segment, one call is enough if its activations are kept from the forward
/// pass. The second time, a block gets the same input and draws the same mask.
///
/// On return, `random` is in the state in which the first call of `forward` for the last block left
/// it.
///
/// All numbers, `x` included, are in memory from world.allocate(). At any time, there are at most
/// (S + 2) w + k a of them (L a instead of k a if k > L).
Buffer train_step(World& world, const Chain& chain, int k, Buffer x, Random& random);

}  // namespace lockstep::exercises
