/// Two versions of causal attention's forward pass, each of which adds one idea to the previous
/// version. The third is kernels/cuda/attention_f32_forward.cu, the fourth attention_forward.cu.
/// Neither version here stores the (s, s) scores; the question is how often a key and a value are
/// read.

#include <stdexcept>

#include "kernels/arguments.h"
#include "kernels/check.h"
#include "kernels/cuda/attention_problem.cuh"
#include "kernels/cuda/ladder/attention.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/narrow.cuh"

namespace lockstep::cuda {
namespace {

/// The views of one call.
template <class T>
struct Attended {
  Problem n;
  Strided<const T> q, k, v;
  Strided<T> y;
  float* lse;
};

// -- 1: one thread per query ----------------------------------------------------------------------

template <class T>
__device__ float score_of(const Problem& n, const T* query, const T* key) {
  float sum = 0.0F;
  for (int c = 0; c < n.d; ++c) sum = fmaf(widen(query[c]), widen(key[c]), sum);
  return sum * n.scale;
}

/// Each thread treats its query as a CPU would: a pass over the keys for the largest score, a pass
/// for the sum of exponentials, and a pass over keys and values for the result. It computes each
/// score three times, and a warp's loads of queries and results touch 32 rows.
template <class T>
__global__ void one_thread_per_query(Attended<T> a) {
  const Problem& n = a.n;
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index >= n.matrices * n.s) return;
  const int matrix = index / n.s, query = index % n.s;
  const T* const q = a.q.matrix(n, matrix).row(query);
  const Matrix<const T> keys = a.k.matrix(n, matrix), values = a.v.matrix(n, matrix);
  float maximum = -infinity;
  for (int key = 0; key <= query; ++key) maximum = fmaxf(maximum, score_of(n, q, keys.row(key)));
  float sum = 0.0F;
  for (int key = 0; key <= query; ++key) sum += __expf(score_of(n, q, keys.row(key)) - maximum);
  float result[widest_head] = {};
  for (int key = 0; key <= query; ++key) {
    const float weight = __expf(score_of(n, q, keys.row(key)) - maximum) / sum;
    for (int c = 0; c < n.d; ++c) result[c] = fmaf(weight, widen(values.row(key)[c]), result[c]);
  }
  T* const y = a.y.matrix(n, matrix).row(query);
  for (int c = 0; c < n.d; ++c) y[c] = rounded<T>(result[c]);
  a.lse[index] = maximum + logf(sum);
}

// -- 2: one warp per query, online softmax --------------------------------------------------------

/// Returns the sum over a warp, on all lanes.
__device__ float sum_over_warp(float value) {
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xffffffffU, value, distance);
  return value;
}

/// The lanes of a warp share a row's columns: adjacent lanes read adjacent elements (coalesced),
/// and the query and the result stay in registers. The online softmax (Milakov & Gimelshein 2018)
/// reads keys and values once per query: when the maximum grows, the sum and the result are
/// rescaled. Still, all s queries read the same keys, s / 2 times on average, mostly from a cache,
/// and each score takes a sum over the warp. Step 3 loads a tile of keys into shared memory for a
/// whole tile of queries.
template <class T>
__global__ void one_warp_per_query(Attended<T> a) {
  constexpr int most = widest_head / 32;  // columns per lane
  const Problem& n = a.n;
  const int lane = static_cast<int>(threadIdx.x);
  const int index = static_cast<int>(blockIdx.x * blockDim.y + threadIdx.y);
  if (index >= n.matrices * n.s) return;  // the whole warp
  const int matrix = index / n.s, query = index % n.s;
  const Matrix<const T> keys = a.k.matrix(n, matrix), values = a.v.matrix(n, matrix);
  float q[most], result[most] = {};
  const auto each_column = [&](auto visit) {
    for (int i = 0; i < most; ++i)
      if (lane + 32 * i < n.d) visit(i, lane + 32 * i);
  };
  const T* const from = a.q.matrix(n, matrix).row(query);
  each_column([&](int i, int c) { q[i] = widen(from[c]); });
  float maximum = -infinity, sum = 0.0F;
  for (int key = 0; key <= query; ++key) {
    float score = 0.0F;
    each_column([&](int i, int c) { score = fmaf(q[i], widen(keys.row(key)[c]), score); });
    score = sum_over_warp(score) * n.scale;
    const float highest = fmaxf(maximum, score);
    const float factor = __expf(maximum - highest), weight = __expf(score - highest);
    maximum = highest;
    sum = fmaf(sum, factor, weight);
    each_column([&](int i, int c) {
      result[i] = fmaf(weight, widen(values.row(key)[c]), result[i] * factor);
    });
  }
  T* const y = a.y.matrix(n, matrix).row(query);
  each_column([&](int i, int c) { y[c] = rounded<T>(result[i] / sum); });
  if (lane == 0) a.lse[index] = maximum + logf(sum);
}

// -------------------------------------------------------------------------------------------------

/// Returns a step that calls start(queue, problem) with the problem of the arguments' type.
template <class Start>
AttentionStep step(const char* name, Start start) {
  return {name, [=](Queue queue, In q, In k, In v, int heads, Out y, Out32 lse, Out32 none) {
            const auto n = arguments::attention_forward(q, k, v, heads, y, lse, none);
            want_one_type(name, {{"q", q}, {"k", k}, {"v", v}, {"y", y}});
            if (n.d > widest_head) throw std::invalid_argument("a head has at most 128 columns");
            const Problem problem{static_cast<int>(n.s),
                                  static_cast<int>(n.d),
                                  heads,
                                  static_cast<int>(n.b * n.heads),
                                  n.scale,
                                  false};
            with_type_of(q.dtype, [&](auto type) {
              using T = Pointee<decltype(type)>;
              start(queue, Attended<T>{problem, Strided<const T>{q}, Strided<const T>{k},
                                       Strided<const T>{v}, Strided<T>{y}, lse.f32()});
            });
          }};
}

}  // namespace

std::vector<AttentionStep> attention_ladder() {
  return {
      step("one thread per query",
           []<class T>(Queue queue, const Attended<T>& a) {
             launch({"one_thread_per_query", queue, Grid{groups_of(128, a.n.matrices * a.n.s)},
                     dim3(128)},
                    one_thread_per_query<T>, a);
           }),
      step("one warp per query, online softmax",
           []<class T>(Queue queue, const Attended<T>& a) {
             launch({"one_warp_per_query", queue, Grid{groups_of(8, a.n.matrices * a.n.s)},
                     dim3(32, 8)},
                    one_warp_per_query<T>, a);
           }),
  };
}

}  // namespace lockstep::cuda
