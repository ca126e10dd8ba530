#pragma once

/// Attention of up to 64 query rows of one head, the building block of the attention kernels.
///
/// A block of rows attends to all keys, to the keys up to each row (causal attention), or to one
/// range of keys per row. The scores of one block (64 s floats) stay in the L2 cache. The full (s,
/// s) probabilities are stored only if the caller asks for them. Otherwise the forward pass keeps
/// each row's log-sum-exp, from which the backward pass recomputes the probabilities (Dao 2022,
/// "FlashAttention", algorithm 4).

#include <algorithm>
#include <memory>

#include "kernels/arguments.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/gemm.h"

namespace lockstep::cpu {

inline constexpr std::int64_t block_rows = 64;

using AttentionSizes = arguments::Attention;

/// The (s, d) matrix of one sequence and head, in f32 and without gaps between its rows.
struct Head {
  float* data;
  std::int64_t stride;

  float* row(std::int64_t r) const { return data + r * stride; }
  Matrix from(std::int64_t r) const { return {row(r), stride}; }
  Matrix transposed(std::int64_t r) const { return {row(r), stride, true}; }
};

/// Rows [first, first + count) of each sequence of a (b, s, h) view.
struct Rows {
  View view;
  std::int64_t first, count;
  explicit Rows(const View& all) : Rows(all, 0, all.shape[1]) {}
  Rows(const View& view_, std::int64_t first_, std::int64_t count_)
      : view(view_), first(first_), count(count_) {}
};

/// Memory for the matrices of one sequence and head. In a (b, s, h) view, a head's rows are h or 3
/// h elements apart, and their elements may be 16-bit. A product copies a matrix whose rows have
/// gaps (gemm.h). Every block of queries multiplies by the same keys and values, so they are copied
/// once for all blocks, and for all query heads of their group.
class Heads {
 public:
  /// `rows` is the largest number of rows of any of the `count` matrices.
  Heads(std::int64_t rows, std::int64_t d, int count)
      : elements_(rows * d),
        d_(d),
        memory_(
            std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(count * elements_))) {}

  /// Selects the head that read() and write() access. Views of queries and of keys may have
  /// different numbers of heads.
  void select(std::int64_t sequence, std::int64_t head) {
    sequence_ = sequence;
    head_ = head;
  }
  /// Returns matrix i.
  Head operator[](int i) const { return {memory_.get() + i * elements_, d_}; }
  /// Returns matrix i, copied from the selected head of a (b, s, h) view.
  Head read(const View& view, int i) const { return read(Rows{view}, i); }
  Head read(const Rows& rows, int i) const {
    convert({}, part(rows), dense(i, rows.count));
    return (*this)[i];
  }
  /// Copies matrix i to the selected head of a (b, s, h) view.
  void write(int i, const View& view) const { write(i, Rows{view}); }
  void write(int i, const Rows& rows) const { convert({}, dense(i, rows.count), part(rows)); }

 private:
  View dense(int i, std::int64_t rows) const { return {(*this)[i].data, {rows, d_}}; }
  View part(const Rows& rows) const {
    const View& view = rows.view;
    const std::int64_t row = sequence_ * view.shape[1] + rows.first;
    View part{
        static_cast<std::byte*>(view.data) +
            static_cast<std::size_t>(row * view.row_stride + head_ * d_) * size_of(view.dtype),
        {rows.count, d_},
        view.dtype};
    part.row_stride = view.row_stride;
    return part;
  }

  std::int64_t elements_, d_;
  std::unique_ptr<float[]> memory_;
  std::int64_t sequence_ = 0, head_ = 0;
};

/// Keys [begin, end).
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
};

/// Query rows [first, end) and the keys that any of them sees, [first_key, end_key).
struct Block {
  std::int64_t first, end;
  std::int64_t first_key, end_key;
  bool causal = false;             ///< query i sees only the keys up to i
  const Range* visible = nullptr;  ///< unless null, query i sees only the keys in visible[i]

  std::int64_t rows() const { return end - first; }
  std::int64_t keys() const { return end_key - first_key; }
  /// Returns the keys that row i of the block sees, counted from the block's first key.
  Range seen(std::int64_t i) const {
    if (visible == nullptr) return {0, causal ? first + i + 1 : keys()};
    const Range& keys_of_row = visible[first + i];
    if (keys_of_row.count() == 0) return {};
    return {keys_of_row.begin - first_key, keys_of_row.end - first_key};
  }
};

/// Returns the causal block of query rows [first, end).
inline Block causal(std::int64_t first, std::int64_t end) {
  return {first, end, 0, end, true};
}

/// Allocates scores for one block: (64, keys).
inline std::unique_ptr<float[]> scores(std::int64_t keys) {
  return std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(block_rows * keys));
}

/// Computes y = softmax(scale q kᵀ) v and lse for one block of queries. Also writes the
/// probabilities to `kept` (s, s) unless it is null (causal attention only). `p` is scratch.
void forward_block(const AttentionSizes& n, Block block, Head q, Head k, Head v, Head y, float* lse,
                   float* kept, float* p);

/// Recomputes the probabilities of one block of queries from lse; masked entries are zero.
void recompute_probabilities(const AttentionSizes& n, Block block, Head q, Head k, const float* lse,
                             float* p);

/// Computes the gradients that one block of queries contributes. `p` holds the block's
/// probabilities, starting at its first row; `dp` is scratch. Adds to each gradient if its factor
/// is 1, and overwrites it if the factor is 0.
void backward_block(const AttentionSizes& n, Block block, Head dy, Head q, Head k, Head v, Head y,
                    Matrix p, Head dq, Head dk, Head dv, float* dp, float add_to_dq,
                    float add_to_dk_dv);

}  // namespace lockstep::cpu
