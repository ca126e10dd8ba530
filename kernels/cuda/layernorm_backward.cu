/// Layer normalisation and RMSNorm, backward: backward_input moves 3 N h elements, backward_weight
/// 2 N h; gain and bias stay in cache.
///
/// Fused with the addition of the residual connection's gradient, backward_input moves 4 N h
/// elements instead of the pair's 6: it neither writes nor reads the gradient before the addition.
/// It rounds that gradient as if it did, so the results are bitwise identical to those of the pair;
/// for the compiler's flags see layernorm_forward.cu.

#include "kernels/arguments.h"
#include "kernels/check.h"
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/layernorm_row.cuh"

namespace lockstep::cuda {
namespace {

/// Computes dx. With x̂ = (x - mean) rstd and d = dy gain:  dx = rstd (d - mean(d) - x̂ mean(d
/// x̂)). In RMSNorm, mean and mean(d) are 0, and `means` is null. If `adds`, then adds the rounded
/// dx to `other`; otherwise `other` is null.
template <class T, Norm norm, bool adds, bool whole>
__global__ void __launch_bounds__(most_threads)
    backward_input_kernel(const T* dy, const T* x, const T* gain, const float* means,
                          const float* rstds, const T* other, T* dx, int h) {
  using Sums = BlockReduction<float2, most_threads>;
  __shared__ typename Sums::Storage storage;
  constexpr int size = per_vector<T>;
  const std::int64_t row = blockIdx.x;
  const RowPart<T, whole> up(dy + row * h, h);
  const RowPart<T, whole> in(x + row * h, h);
  const float mean = norm == Norm::layer ? means[row] : 0.0F;
  const float rstd = rstds[row];

  /// Calls visit(first column, count, d, x̂) for each chunk.
  const auto each = [&](auto visit) {
    up.each_with(in,
                 [&](int first, int count, const Chunk<T, size>& dys, const Chunk<T, size>& xs) {
                   const Chunk<T, size> g = columns_of<whole>(gain, h, first, count);
                   float d[size], normalised[size];
                   for (int i = 0; i < size; ++i) {
                     d[i] = widen(dys.at(i)) * widen(g.at(i));
                     normalised[i] = (widen(xs.at(i)) - mean) * rstd;
                   }
                   visit(first, count, d, normalised);
                 });
  };

  float2 sums{0.0F, 0.0F};  // of d and of d x̂
  each([&](int, int count, const float(&d)[size], const float(&normalised)[size]) {
    first_elements<size, whole>(count, [&](int i) {
      sums.x += d[i];
      sums.y += d[i] * normalised[i];
    });
  });
  sums = Sums(storage)(sums, [](float2 a, float2 b) { return float2{a.x + b.x, a.y + b.y}; });
  const float mean_d = norm == Norm::layer ? sums.x / static_cast<float>(h) : 0.0F;
  const float mean_dx = sums.y / static_cast<float>(h);

  each([&](int first, int count, const float(&d)[size], const float(&normalised)[size]) {
    Chunk<T, size> out = rounded_chunk<T, size>(
        [&](int i) { return rstd * (d[i] - mean_d - normalised[i] * mean_dx); });
    if constexpr (adds) {
      const Source<T, whole> others{other + row * h, other + (row + 1) * h};
      const Chunk<T, size> terms = others.template load<size>(first, count, T{});
      out = rounded_chunk<T, size>([&](int i) { return widen(terms.at(i)) + widen(out.at(i)); });
    }
    store<whole>(dx + row * h + first, out, count);
  });
}

/// The terms that backward_weight sums over rows: dy x̂ for dgain, and dy for dbias. In RMSNorm,
/// `mean` is null, and dbias is not needed.
template <class T, Norm norm, bool whole>
struct WeightGradients {
  Rows<const T, whole> dy, x;
  const float* mean;
  const float* rstd;

  template <int size>
  __device__ void operator()(std::int64_t row, std::int64_t first, int count, std::int64_t columns,
                             float (&dgain)[size], float (&dbias)[size]) const {
    const Chunk<T, size> up = dy.row(row, columns).template load<size>(first, count, T{});
    const Chunk<T, size> in = x.row(row, columns).template load<size>(first, count, T{});
    const float mu = norm == Norm::layer ? mean[row] : 0.0F, r = rstd[row];
    for (int i = 0; i < size; ++i) {
      dgain[i] += widen(up.at(i)) * ((widen(in.at(i)) - mu) * r);
      dbias[i] += widen(up.at(i));
    }
  }
};

void layernorm_backward_input(Queue queue, In dy, In x, In gain, In32 mean, In32 rstd, Out dx) {
  constexpr const char* name = "layernorm_backward_input";
  const auto n = arguments::layernorm_backward_input(dy, x, gain, mean, rstd, dx);
  want_one_type(name, {{"dy", dy}, {"x", x}, {"gain", gain}, {"dx", dx}});
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    with_whole({dy, x, gain, dx}, [&](auto whole) {
      launch({name, queue, Grid{n.rows}, threads_for<T>(n.columns)},
             backward_input_kernel<T, Norm::layer, false, whole>, data_of<T>(dy), data_of<T>(x),
             data_of<T>(gain), mean.f32(), rstd.f32(), nullptr, data_of<T>(dx),
             static_cast<int>(n.columns));
    });
  });
}

void layernorm_backward_input_add(Queue queue, In dy, In x, In gain, In32 mean, In32 rstd, In other,
                                  Out dx) {
  constexpr const char* name = "layernorm_backward_input_add";
  const auto n = arguments::layernorm_backward_input(dy, x, gain, mean, rstd, dx);
  arguments::add(other, dx, dx);
  want_one_type(name, {{"dy", dy}, {"x", x}, {"gain", gain}, {"other", other}, {"dx", dx}});
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    with_whole({dy, x, gain, other, dx}, [&](auto whole) {
      launch({name, queue, Grid{n.rows}, threads_for<T>(n.columns)},
             backward_input_kernel<T, Norm::layer, true, whole>, data_of<T>(dy), data_of<T>(x),
             data_of<T>(gain), mean.f32(), rstd.f32(), data_of<T>(other), data_of<T>(dx),
             static_cast<int>(n.columns));
    });
  });
}

void layernorm_backward_weight(Queue queue, In dy, In x, In32 mean, In32 rstd, InOut dgain,
                               InOut dbias) {
  constexpr const char* name = "layernorm_backward_weight";
  const auto n = arguments::layernorm_backward_weight(dy, x, mean, rstd, dgain, dbias);
  want_one_type(name, {{"dy", dy}, {"x", x}, {"dgain", dgain}, {"dbias", dbias}});
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    with_whole({dy, x}, [&](auto whole) {
      const WeightGradients<T, Norm::layer, whole> gradients{
          rows_of<const T, whole>(dy), rows_of<const T, whole>(x), mean.f32(), rstd.f32()};
      add_column_sums(name, queue, gradients, n, data_of<T>(dgain), data_of<T>(dbias));
    });
  });
}

void rmsnorm_backward_input(Queue queue, In dy, In x, In gain, In32 rstd, Out dx) {
  constexpr const char* name = "rmsnorm_backward_input";
  const auto n = arguments::rmsnorm_backward_input(dy, x, gain, rstd, dx);
  want_one_type(name, {{"dy", dy}, {"x", x}, {"gain", gain}, {"dx", dx}});
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    with_whole({dy, x, gain, dx}, [&](auto whole) {
      launch({name, queue, Grid{n.rows}, threads_for<T>(n.columns)},
             backward_input_kernel<T, Norm::rms, false, whole>, data_of<T>(dy), data_of<T>(x),
             data_of<T>(gain), nullptr, rstd.f32(), nullptr, data_of<T>(dx),
             static_cast<int>(n.columns));
    });
  });
}

void rmsnorm_backward_weight(Queue queue, In dy, In x, In32 rstd, InOut dgain) {
  constexpr const char* name = "rmsnorm_backward_weight";
  const auto n = arguments::rmsnorm_backward_weight(dy, x, rstd, dgain);
  want_one_type(name, {{"dy", dy}, {"x", x}, {"dgain", dgain}});
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    with_whole({dy, x}, [&](auto whole) {
      const WeightGradients<T, Norm::rms, whole> gradients{
          rows_of<const T, whole>(dy), rows_of<const T, whole>(x), nullptr, rstd.f32()};
      add_column_sums<T>(name, queue, gradients, n, data_of<T>(dgain), nullptr);
    });
  });
}

}  // namespace

void set_layernorm_backward(Kernels& kernels) {
  kernels.layernorm_backward_input = layernorm_backward_input;
  kernels.layernorm_backward_input_add = layernorm_backward_input_add;
  kernels.layernorm_backward_weight = layernorm_backward_weight;
  kernels.rmsnorm_backward_input = rmsnorm_backward_input;
  kernels.rmsnorm_backward_weight = rmsnorm_backward_weight;
}

}  // namespace lockstep::cuda
