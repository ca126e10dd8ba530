/// Token and position embeddings: the forward pass adds one row from each table, and the backward
/// pass scatter-adds the gradients.
///
/// The forward pass uses one block per row and moves 3 N h elements. The backward pass must add the
/// rows of dx that belong to one token in ascending order of (b, s), whatever the order in which
/// blocks run. It therefore first sorts the row numbers by token with CUB's radix sort, which is
/// stable. (The N pairs of 4-byte numbers that it sorts are few compared with the N h elements.)
/// The block at the start of each run of equal tokens then adds the run to the token's table row,
/// which it reads and writes once. The rows that belong to one position are s apart, one per
/// sequence, so they need no sorting. Traffic: dx is read twice, and each table row that occurs is
/// read once and written once.
///
/// A token outside the table's part of the vocabulary (a rank's part, or all of [0, V)) has no
/// table row: for such a token the forward pass writes only the position embedding, and the
/// backward pass adds nothing to the token table.

#include <algorithm>
#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "kernels/arguments.h"
#include "kernels/check.h"
#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/launch.cuh"

namespace lockstep::cuda {
namespace {

constexpr int embedding_threads = 128;
constexpr int rows_at_once = 4;  // rows of dx that a thread loads before it adds them

/// The sizes of a call whose table holds the rows of `part`.
struct Problem {
  arguments::Embedding n;
  VocabularyPart part;

  /// Returns the table row of a token, or part.count if there is none.
  __device__ std::int64_t table_row(std::int64_t token) const {
    const std::int64_t row = token - part.first;
    return row >= 0 && row < part.count ? row : part.count;
  }
};

/// `positions` may be null.
template <class T>
__global__ void __launch_bounds__(embedding_threads)
    forward_kernel(const std::int32_t* tokens, const T* table, const T* positions, T* x,
                   Problem problem) {
  constexpr int size = per_vector<T>;
  const arguments::Embedding& n = problem.n;
  const std::int64_t row = blockIdx.x;
  const std::int64_t token = problem.table_row(tokens[row]);
  const bool known = token < problem.part.count;
  T* const out = x + row * n.h;
  const Rows<const T> words{table, n.h}, places{positions, n.h};
  for (std::int64_t i = threadIdx.x; i * size < n.h + size - 1; i += embedding_threads) {
    const Cut cut = Cut::chunk<size>(i, out, n.h);
    Chunk<T, size> sum{};
    if (positions != nullptr)
      sum = places.row(row % n.s, n.h).template load<size>(cut.first, cut.count, T{});
    if (known) {
      const Chunk<T, size> word =
          words.row(token, n.h).template load<size>(cut.first, cut.count, T{});
      sum = rounded_chunk<T, size>([&](int k) { return widen(word.at(k)) + widen(sum.at(k)); });
    }
    store(out + cut.first, sum, cut.count);
  }
}

/// Writes the sort input: the table row of each row's token as the key, and the row number.
__global__ void __launch_bounds__(embedding_threads)
    keys_kernel(const std::int32_t* tokens, Problem problem, std::uint32_t* keys,
                std::int32_t* rows) {
  const std::int64_t i = std::int64_t{blockIdx.x} * embedding_threads + threadIdx.x;
  if (i >= problem.n.rows) return;
  keys[i] = static_cast<std::uint32_t>(problem.table_row(tokens[i]));
  rows[i] = static_cast<std::int32_t>(i);
}

/// Adds to[c] += Σ_k dx[row_of(k)][c] in ascending k, for the block's columns. Loads are issued
/// ahead of the additions.
template <class T, class RowOf>
__device__ void add_rows(const T* dx, T* to, std::int64_t h, std::int64_t count, RowOf row_of) {
  constexpr int size = per_vector<T>;
  const Rows<const T> from{dx, h};
  const Rows<const T> into{to, h};
  for (std::int64_t i = threadIdx.x; i * size < h + size - 1; i += embedding_threads) {
    const Cut cut = Cut::chunk<size>(i, to, h);
    const Chunk<T, size> total = into.row(0, h).template load<size>(cut.first, cut.count, T{});
    float sum[size];
    for (int c = 0; c < size; ++c) sum[c] = widen(total.at(c));
    for (std::int64_t k = 0; k < count; k += rows_at_once) {
      Chunk<T, size> part[rows_at_once];
#pragma unroll
      for (int r = 0; r < rows_at_once; ++r)
        if (k + r < count)
          part[r] = from.row(row_of(k + r), h).template load<size>(cut.first, cut.count, T{});
#pragma unroll
      for (int r = 0; r < rows_at_once; ++r)
        if (k + r < count)
          for (int c = 0; c < size; ++c) sum[c] += widen(part[r].at(c));
    }
    store(to + cut.first, rounded_chunk<T, size>([&](int c) { return sum[c]; }), cut.count);
  }
}

template <class T>
__global__ void __launch_bounds__(embedding_threads)
    tokens_kernel(const std::uint32_t* keys, const std::int32_t* rows, const T* dx, T* dtable,
                  Problem problem) {
  const arguments::Embedding& n = problem.n;
  const std::int64_t first = blockIdx.x;
  const std::uint32_t token = keys[first];
  if (token >= problem.part.count || (first > 0 && keys[first - 1] == token)) return;
  // Binary search for the run's end: keys[end - 1] is this token, keys[beyond] is not.
  std::int64_t end = first + 1, beyond = n.rows;
  while (end < beyond) {
    const std::int64_t middle = end + (beyond - end) / 2;
    if (keys[middle] == token)
      end = middle + 1;
    else
      beyond = middle;
  }
  add_rows(dx, dtable + token * n.h, n.h, end - first,
           [=](std::int64_t k) { return rows[first + k]; });
}

template <class T>
__global__ void __launch_bounds__(embedding_threads)
    positions_kernel(const T* dx, T* dpositions, arguments::Embedding n) {
  const std::int64_t position = blockIdx.x;
  add_rows(dx, dpositions + position * n.h, n.h, n.rows / n.s,
           [=](std::int64_t k) { return k * n.s + position; });
}

void forward(const char* name, Queue queue, Indices tokens, In tokens_table, In positions_table,
             Out x, const Problem& problem) {
  want_one_type(name,
                {{"tokens_table", tokens_table}, {"positions_table", positions_table}, {"x", x}});
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    launch({name, queue, Grid{problem.n.rows}, dim3(embedding_threads)}, forward_kernel<T>,
           tokens.i32(), data_of<T>(tokens_table), data_of<T>(positions_table), data_of<T>(x),
           problem);
  });
}

void backward(const char* name, Queue queue, Indices tokens, In dx, InOut dtokens_table,
              InOut dpositions_table, const Problem& problem) {
  const arguments::Embedding& n = problem.n;
  want_one_type(
      name, {{"dx", dx}, {"dtokens_table", dtokens_table}, {"dpositions_table", dpositions_table}});
  if (n.rows == 0) return;
  const auto rows = static_cast<std::size_t>(n.rows);
  const Scratch<std::uint32_t> keys(queue, 2 * rows);
  const Scratch<std::int32_t> numbers(queue, 2 * rows);
  launch({name, queue, Grid{groups_of(embedding_threads, n.rows)}, dim3(embedding_threads)},
         keys_kernel, tokens.i32(), problem, keys.data(), numbers.data());

  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint32_t>(problem.part.count)));
  const auto sort = [&](void* storage, std::size_t& bytes) {
    LOCKSTEP_CUDA(cub::DeviceRadixSort::SortPairs(
        storage, bytes, keys.data(), keys.data() + rows, numbers.data(), numbers.data() + rows,
        static_cast<int>(n.rows), 0, std::max(bits, 1), stream_of(queue)));
  };
  std::size_t bytes = 0;
  sort(nullptr, bytes);
  const Scratch<std::byte> storage(queue, bytes);
  sort(storage.data(), bytes);

  with_type_of(dx.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    launch({name, queue, Grid{n.rows}, dim3(embedding_threads)}, tokens_kernel<T>,
           keys.data() + rows, numbers.data() + rows, data_of<T>(dx), data_of<T>(dtokens_table),
           problem);
    if (dpositions_table)
      launch({name, queue, Grid{n.s}, dim3(embedding_threads)}, positions_kernel<T>, data_of<T>(dx),
             data_of<T>(dpositions_table), n);
  });
}

void embedding_forward(Queue queue, Indices tokens, In tokens_table, In positions_table, Out x) {
  const auto n = arguments::embedding_forward(tokens, tokens_table, positions_table, x);
  forward("embedding_forward", queue, tokens, tokens_table, positions_table, x,
          {n, {0, n.vocabulary}});
}

void embedding_backward(Queue queue, Indices tokens, In dx, InOut dtokens_table,
                        InOut dpositions_table) {
  const auto n = arguments::embedding_backward(tokens, dx, dtokens_table, dpositions_table);
  backward("embedding_backward", queue, tokens, dx, dtokens_table, dpositions_table,
           {n, {0, n.vocabulary}});
}

void embedding_part_forward(Queue queue, Indices tokens, VocabularyPart part, In tokens_table,
                            In positions_table, Out x) {
  const auto n = arguments::embedding_part_forward(tokens, part, tokens_table, positions_table, x);
  forward("embedding_part_forward", queue, tokens, tokens_table, positions_table, x, {n, part});
}

void embedding_part_backward(Queue queue, Indices tokens, VocabularyPart part, In dx,
                             InOut dtokens_table, InOut dpositions_table) {
  const auto n =
      arguments::embedding_part_backward(tokens, part, dx, dtokens_table, dpositions_table);
  backward("embedding_part_backward", queue, tokens, dx, dtokens_table, dpositions_table,
           {n, part});
}

}  // namespace

void set_embedding(Kernels& kernels) {
  kernels.embedding_forward = embedding_forward;
  kernels.embedding_backward = embedding_backward;
  kernels.embedding_part_forward = embedding_part_forward;
  kernels.embedding_part_backward = embedding_part_backward;
}

}  // namespace lockstep::cuda
