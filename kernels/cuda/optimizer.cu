/// AdamW: each thread updates chunks of four parameters with their momenta and variances. The
/// kernel reads four arrays and writes three: 28 bytes per element in f32, 22 with a 16-bit
/// parameter and gradient. With an f32 master and its rounded 16-bit copy it is again 28: writing
/// the copy here saves reading the master again to round it. The kernel is memory-bound, despite a
/// square root and two divisions.
///
/// The kernel uses the arithmetic of kernels/element.h, and its results are bitwise identical to
/// the CPU's, because this file is compiled without fused multiply-adds.

#include "kernels/adamw_factors.h"
#include "kernels/arguments.h"
#include "kernels/check.h"
#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/tensor_list.cuh"

namespace lockstep::cuda {
namespace {

constexpr int update_threads = 256;
constexpr int update_size = per_vector<float>;  // elements per 16 bytes of the widest arrays

template <class P, class G>
struct Updated {
  P* parameter;
  const G* gradient;
  float* momentum;
  float* variance;
  G* rounded;  ///< may be null
  std::int64_t n;
};
template <class P, class G>
using UpdatedList = TensorList<Updated<P, G>, 64>;

template <class P, class G>
__global__ void __launch_bounds__(update_threads)
    adamw_kernel(element::AdamWFactors factors, const __grid_constant__ UpdatedList<P, G> list) {
  const int t = list.of_block(static_cast<int>(blockIdx.x));
  const Updated<P, G>& to = list.tensors[t];
  const std::int64_t block = static_cast<int>(blockIdx.x) - list.first_block[t];
  // Align chunks to the moments, which account for most of the bytes.
  const Cut cut = Cut::chunk<update_size>(block * update_threads + threadIdx.x, to.momentum, to.n);
  const std::int64_t i = cut.first;
  auto p =
      Source<P>{to.parameter, to.parameter + to.n}.template load<update_size>(i, cut.count, P{});
  const auto g =
      Source<G>{to.gradient, to.gradient + to.n}.template load<update_size>(i, cut.count, G{});
  auto m = Source<float>{to.momentum, to.momentum + to.n}.load<update_size>(i, cut.count, 0.0F);
  auto v = Source<float>{to.variance, to.variance + to.n}.load<update_size>(i, cut.count, 0.0F);
  Chunk<G, update_size> rounded_p;
#pragma unroll
  for (int k = 0; k < update_size; ++k) {
    float wide = widen(p.at(k)), momentum = m.at(k), variance = v.at(k);
    element::adamw(factors, widen(g.at(k)), wide, momentum, variance);
    p.set(k, rounded<P>(wide));
    m.set(k, momentum);
    v.set(k, variance);
    rounded_p.set(k, rounded<G>(widen(p.at(k))));
  }
  store(to.parameter + i, p, cut.count);
  store(to.momentum + i, m, cut.count);
  store(to.variance + i, v, cut.count);
  if (to.rounded != nullptr) store(to.rounded + i, rounded_p, cut.count);
}

/// Updates tensors [first, ...), all that fit in one launch and have the first one's types. Returns
/// the index of the next tensor.
std::size_t launch_adamw(Queue queue, const std::vector<AdamWTensor>& tensors, std::size_t first,
                         const element::AdamWFactors& factors) {
  std::size_t end = first;
  with_type_of(tensors[first].parameter.dtype, [&](auto parameter_type) {
    with_type_of(tensors[first].gradient.dtype, [&](auto gradient_type) {
      using P = Pointee<decltype(parameter_type)>;
      using G = Pointee<decltype(gradient_type)>;
      UpdatedList<P, G> list;
      for (; end < tensors.size(); ++end) {
        const auto& [parameter, gradient, momentum, variance, copy] = tensors[end];
        if (parameter.dtype != tensors[first].parameter.dtype ||
            gradient.dtype != tensors[first].gradient.dtype)
          break;
        const std::int64_t n = parameter.elements();
        // Alignment may add one chunk.
        const std::int64_t blocks =
            n == 0 ? 0 : groups_of(std::int64_t{update_threads} * update_size, n + update_size - 1);
        if (!list.add({data_of<P>(parameter), data_of<G>(gradient), momentum.f32(), variance.f32(),
                       data_of<G>(copy), n},
                      blocks))
          break;
      }
      launch({"adamw", queue, Grid{list.blocks()}, dim3(update_threads)}, adamw_kernel<P, G>,
             factors, list);
    });
  });
  return end;
}

void adamw(Queue queue, const std::vector<AdamWTensor>& tensors, const AdamWStep& step) {
  for (const AdamWTensor& tensor : tensors) {
    arguments::adamw(tensor, step);
    want_one_type("adamw", {{"gradient", tensor.gradient}, {"rounded", tensor.rounded}});
  }
  const element::AdamWFactors factors = adamw_factors(step);
  for (std::size_t next = 0; next < tensors.size();)
    next = launch_adamw(queue, tensors, next, factors);
}

}  // namespace

void set_optimizer(Kernels& kernels) {
  kernels.adamw = adamw;
}

}  // namespace lockstep::cuda
