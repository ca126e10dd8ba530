/// Three versions of cross-entropy's forward pass, each of which adds one idea to the previous
/// version. The fourth is kernels/cuda/cross_entropy.cu. With m the maximum of a row's V logits and
/// S = Σ exp(logit - m), lse = m + log S and loss = log S + (m - the target's logit). The least
/// possible traffic is one read of the logits: N V elements.

#include "kernels/cuda/ladder/cross_entropy.h"

#include "kernels/arguments.h"
#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/element.h"

namespace lockstep::cuda {
namespace {

constexpr int threads = 256;  // per block

/// The views of one call, as addresses of T.
template <class T>
struct Problem {
  Rows<const T> logits;
  const std::int32_t* targets;
  float *losses, *lse;
  int rows, vocabulary;

  __device__ const T* row(std::int64_t index) const { return logits.data + index * logits.stride; }
  __device__ void write(std::int64_t index, float maximum, float sum) const {
    const std::int32_t target = targets[index];
    lse[index] = maximum + logf(sum);
    losses[index] = target >= 0 && target < vocabulary
                        ? logf(sum) + (maximum - widen(row(index)[target]))
                        : element::from_bits(0x7fc00000U);  // NaN
  }
};

/// The number to subtract from logits: `maximum`, their maximum, or 0 if all of them are -∞.
__device__ float shift_of(float maximum) {
  return maximum == -INFINITY ? 0.0F : maximum;
}

// -- 1: one thread per row ------------------------------------------------------------------------

/// Each thread treats its row as a CPU would: a pass for the maximum, a pass for the sum. A warp's
/// loads touch 32 rows, and thus 32 cache lines for 32 elements. There are only N threads, too few
/// to keep the memory busy.
template <class T>
__global__ void one_thread_per_row(Problem<T> p) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= p.rows) return;
  const T* const logits = p.row(row);
  float maximum = -INFINITY;
  for (int i = 0; i < p.vocabulary; ++i) maximum = fmaxf(maximum, widen(logits[i]));
  float sum = 0.0F;
  for (int i = 0; i < p.vocabulary; ++i) sum += __expf(widen(logits[i]) - shift_of(maximum));
  p.write(row, maximum, sum);
}

// -- 2: one block per row, two passes -------------------------------------------------------------

/// Adjacent threads read adjacent logits (coalesced), and 256 threads share a row. The block reads
/// its row twice: first for the maximum, then for the sum.
template <class T>
__global__ void __launch_bounds__(threads) two_passes(Problem<T> p) {
  using Merged = BlockReduction<float, threads>;
  __shared__ typename Merged::Storage storage;
  const T* const logits = p.row(blockIdx.x);
  const int first = static_cast<int>(threadIdx.x);
  float maximum = -INFINITY;
  for (int i = first; i < p.vocabulary; i += threads) maximum = fmaxf(maximum, widen(logits[i]));
  maximum = Merged(storage)(maximum, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0.0F;
  for (int i = first; i < p.vocabulary; i += threads)
    sum += __expf(widen(logits[i]) - shift_of(maximum));
  sum = Merged(storage)(sum, Sum{});
  if (threadIdx.x == 0) p.write(blockIdx.x, maximum, sum);
}

// -- 3: one pass ----------------------------------------------------------------------------------

/// Online softmax (Milakov & Gimelshein 2018, algorithm 3): each thread keeps a running maximum and
/// the sum relative to it, and rescales the sum when the maximum grows. Then the block merges its
/// threads' pairs. The logits are read once, at the price of a second exponential per logit. Step 4
/// adds loads of 16 bytes instead of one element, several of them in flight, and one rescaling for
/// all logits of a load.
template <class T>
__global__ void __launch_bounds__(threads) one_pass(Problem<T> p) {
  using Merged = BlockReduction<element::SoftmaxPart, threads>;
  __shared__ typename Merged::Storage storage;
  const T* const logits = p.row(blockIdx.x);
  element::SoftmaxPart part;
  for (int i = static_cast<int>(threadIdx.x); i < p.vocabulary; i += threads) {
    const float logit = widen(logits[i]);
    const float maximum = fmaxf(part.maximum, logit);
    const float shift = shift_of(maximum);
    part = {maximum, part.sum * __expf(part.maximum - shift) + __expf(logit - shift)};
  }
  part = Merged(storage).on_first_thread(
      part,
      [](const element::SoftmaxPart& a, const element::SoftmaxPart& b) { return merge(a, b); });
  if (threadIdx.x == 0) p.write(blockIdx.x, part.maximum, part.sum);
}

// -------------------------------------------------------------------------------------------------

/// Returns a step that calls start(queue, problem) with the problem of the arguments' type.
template <class Start>
CrossEntropyStep step(const char* name, Start start) {
  return {name, [start](Queue queue, In logits, Indices targets, Out32 losses, Out32 lse) {
            const auto n = arguments::cross_entropy_forward(logits, targets, losses, lse);
            with_type_of(logits.dtype, [&](auto type) {
              using T = Pointee<decltype(type)>;
              start(queue,
                    Problem<T>{rows_of<const T>(logits), targets.i32(), losses.f32(), lse.f32(),
                               static_cast<int>(n.rows), static_cast<int>(n.columns)});
            });
          }};
}

}  // namespace

std::vector<CrossEntropyStep> cross_entropy_ladder() {
  return {
      step("one thread per row",
           []<class T>(Queue queue, const Problem<T>& p) {
             launch({"one_thread_per_row", queue, Grid{groups_of(128, p.rows)}, dim3(128)},
                    one_thread_per_row<T>, p);
           }),
      step("one block per row, two passes",
           []<class T>(Queue queue, const Problem<T>& p) {
             launch({"two_passes", queue, Grid{p.rows}, dim3(threads)}, two_passes<T>, p);
           }),
      step("one block per row, one pass",
           []<class T>(Queue queue, const Problem<T>& p) {
             launch({"one_pass", queue, Grid{p.rows}, dim3(threads)}, one_pass<T>, p);
           }),
  };
}

}  // namespace lockstep::cuda
