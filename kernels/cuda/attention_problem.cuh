#pragma once

/// Definitions shared by all attention kernels: the sizes, the addresses of heads, and the division
/// of work among blocks.

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>

#include "kernels/kernels.h"

namespace lockstep::cuda {

inline constexpr int widest_head = 128;
inline constexpr float infinity = std::numeric_limits<float>::infinity();

/// Returns the number of blocks of `size` that cover `count` items.
__host__ __device__ constexpr int blocks_of(int count, int size) {
  return (count + size - 1) / size;
}

/// The sizes in one kernel call. A "matrix" is one head of one sequence: matrix i is query head i %
/// heads of sequence i / heads. The matrices of a group follow one another.
struct Problem {
  int s, d, heads;
  int matrices;       ///< b * heads
  float scale;        ///< 1 / √d
  bool vectors;       ///< every row of every head starts 16-byte aligned, and d is a multiple of 8
  int per_group = 1;  ///< query heads that share one head of k and v

  __host__ __device__ int groups() const { return matrices / per_group; }  ///< of all sequences
};

/// The (s, d) matrix of one head of one sequence.
template <class T>
struct Matrix {
  T* data;
  int stride;
  __device__ T* row(int i) const { return data + static_cast<std::int64_t>(i) * stride; }
};

/// A (b, s, h) view on the device, or a view like k, each of whose heads serves `share` query
/// heads. In both, `matrix` finds the matrix of a query head.
template <class T>
struct Strided {
  T* data;
  int stride, share;

  explicit Strided(const View& view, int share_ = 1)
      : data(static_cast<T*>(view.data)),
        stride(static_cast<int>(view.row_stride)),
        share(share_) {}

  __device__ Matrix<T> matrix(const Problem& n, int index) const {
    const int first_row = index / n.heads * n.s, first_column = index % n.heads / share * n.d;
    return {data + static_cast<std::int64_t>(first_row) * stride + first_column, stride};
  }
};

/// The part of the work that one block does.
struct Place {
  int matrix, tile;
};

/// Returns the place of a block. Groups of 32 matrices run one after the other, so that a group's
/// keys and values (8 MB at s = 1024, d = 64) stay in the L2 cache while all of the group's tiles
/// run. Within a group, all matrices' blocks for one tile index run before the blocks for the next
/// index. Because of causality, tiles differ in cost, and the hardware starts blocks in order; pass
/// `last_first` if the last tile is the most expensive.
__device__ inline Place place_of(int block, int tiles, int matrices, bool last_first) {
  constexpr int group = 32;
  const int first = block / (group * tiles) * group;
  const int within = block % (group * tiles);
  const int members = group < matrices - first ? group : matrices - first;
  const int tile = within / members;
  return {first + within % members, last_first ? tiles - 1 - tile : tile};
}

// -- kernel launches, each in the file of its name ------------------------------------------------

/// Computes dots (b, heads, s) = Σ dy * y over a head's columns.
void attention_dots(Queue, const Problem&, View dy, View y, float* dots);

void attention_forward_f32(Queue, const Problem&, View q, View k, View v, View y, View lse);
/// Computes the probabilities (b, heads, s, s) from the forward pass's lse. They are bitwise
/// identical to those of the backward pass.
void attention_probabilities_f32(Queue, const Problem&, View q, View k, View lse,
                                 View probabilities);
/// Takes P from `probabilities`, or recomputes P from `lse` if `probabilities` is empty.
void attention_backward_f32(Queue, const Problem&, View dy, View q, View k, View v, View lse,
                            View probabilities, const float* dots, View dq, View dk, View dv);

// The same kernels for bf16 and f16.
void attention_forward_narrow(Queue, const Problem&, View q, View k, View v, View y, View lse);
void attention_probabilities_narrow(Queue, const Problem&, View q, View k, View lse,
                                    View probabilities);
void attention_backward_narrow(Queue, const Problem&, View dy, View q, View k, View v, View lse,
                               View probabilities, const float* dots, View dq, View dk, View dv);

// Attention to a part of the keys, for all types. In `n`, s is the number of rows of q, or of
// `y_part`; `dots` has one element for each row of q and head.
void attention_block_forward(Queue, const Problem&, const AttentionBlock&, View visible, View q,
                             View k, View v, View y, View lse);
void attention_merge(Queue, const Problem&, View y_part, View lse_part, std::int64_t first, View y,
                     View lse);
void attention_block_backward(Queue, const Problem&, const AttentionBlock&, View visible, View dy,
                              View q, View k, View v, View lse, const float* dots, View dq, View dk,
                              View dv);

}  // namespace lockstep::cuda
