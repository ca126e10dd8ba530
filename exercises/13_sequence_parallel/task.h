#pragma once

#include "exercises/frame/collectives.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// This rank's part of one MLP block of a model, y = x + f(norm(x) A) B, whose columns of A and
/// rows of B are divided among the ranks, as in tensor parallelism. `norm` stands for a LayerNorm:
/// it is applied to each token separately. f is applied to each element.
struct Mlp {
  int tokens;               ///< of all ranks together: a multiple of the number of ranks
  int features;             ///< of a token, in x, norm(x) and y
  int columns;              ///< of A on this rank, which also has as many rows of B; may be 0
  std::vector<float> gain;  ///< of the norm, the same on all ranks
  std::vector<float> A, B;  ///< this rank's part, row by row

  /// How many numbers x, norm(x) or y has for all tokens. A **shard** is the part for this rank's
  /// tokens: chunk world.rank() of world.size().
  std::size_t whole() const { return count(tokens) * count(features); }
  /// How many numbers this rank's columns of norm(x) A have for all tokens.
  std::size_t hidden() const { return count(tokens) * count(columns); }

 private:
  static std::size_t count(int n) { return static_cast<std::size_t>(n); }
};

/// The tensors that the forward pass of a block keeps for its backward pass: x of this rank's
/// tokens, norm(x) of all tokens, and this rank's columns h of norm(x) A.
struct Saved {
  Buffer x, n, h;
};

/// Gradients with respect to this rank's part of the parameters. The caller has allocated them.
struct Gradients {
  std::vector<float> gain, A, B;
};

// You can use these functions. They compute on this rank and send no messages. Each overwrites its
// result, except that norm_backward() adds to dx.

/// n = norm(x), for this rank's tokens.
void norm(World& world, const Mlp& block, std::span<const float> x, std::span<float> n);
/// Adds the gradient with respect to the norm's input to dx, and writes the gradient with respect
/// to the gain, both for this rank's tokens.
void norm_backward(World& world, const Mlp& block, std::span<const float> x,
                   std::span<const float> dn, std::span<float> dx, std::span<float> dgain);
/// h = n A, with this rank's columns of A and all tokens.
void column(World& world, const Mlp& block, std::span<const float> n, std::span<float> h);
void column_backward(World& world, const Mlp& block, std::span<const float> n,
                     std::span<const float> dh, std::span<float> dn, std::span<float> dA);
/// y = f(h) B, with this rank's rows of B and all tokens: one term of a sum over the ranks.
void row(World& world, const Mlp& block, std::span<const float> h, std::span<float> y);
void row_backward(World& world, const Mlp& block, std::span<const float> h,
                  std::span<const float> dy, std::span<float> dh, std::span<float> dB);

// You write these two functions, which all ranks call together. In the forward pass, the ranks send
// as many bytes as one all-reduce of whole() numbers, which is what tensor parallelism needs. In
// the backward pass, they send the same, plus an all-reduce of as many numbers as the gain has. No
// rank sends more bytes or more messages than these collectives do. Each rank computes the norm of
// its own tokens only, and only once. In either function, a rank holds at most two tensors of all
// tokens (whole() numbers each), three shards, and hidden() numbers (in the backward pass, two
// times hidden()). Tensors that other blocks have saved do not count. All tensors are in Buffers,
// except that at most one shard may be elsewhere.

/// The forward pass. `x` is the shard of the block's input. Returns the shard of y, and leaves in
/// `saved` what mlp_backward() needs.
Buffer mlp_forward(World& world, const Mlp& block, Buffer x, Saved& saved);

/// The backward pass. `dy` is the shard of the gradient with respect to y. Returns the shard of the
/// gradient with respect to x. The gradients of A and B are those of this rank's part; the gradient
/// of the gain is the same on all ranks. All three are sums over all tokens.
Buffer mlp_backward(World& world, const Mlp& block, Buffer dy, Saved saved, Gradients& gradients);

}  // namespace lockstep::exercises
