/// Matrix products with oneDNN. For f32, this file calls dnnl_sgemm. For bf16 oneDNN has no such
/// call: a product needs a "primitive", which is code that oneDNN generates for given extents. This
/// takes about 0.3 ms, so this file caches the primitives.

#include <oneapi/dnnl/dnnl_debug.h>
#include <algorithm>
#include <map>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <stdexcept>
#include <string>
#include <tuple>

#include "kernels/cpu/gemm.h"

/// Declared here because not every compiler has OpenMP's header.
extern "C" void omp_set_num_threads(int threads);

namespace lockstep::cpu {
namespace {

/// Makes OpenMP use a single thread for the calling thread's computations: the ranks provide the
/// parallelism, and the order of sums must not depend on the number of cores.
void use_one_thread() {
  [[maybe_unused]] thread_local const bool done = (omp_set_num_threads(1), true);
}

/// The extents of a matrix as stored, before any transposition.
struct Stored {
  std::int64_t rows, columns;
};

/// A matrix without gaps between its rows: the given matrix, or a copy of it. oneDNN selects its
/// code by row stride as well as by extents, and different code adds in a different order.
template <class T>
class Dense {
 public:
  Dense(MatrixOf<T> matrix, std::int64_t rows, std::int64_t columns)
      : stored_(matrix.transposed ? Stored{columns, rows} : Stored{rows, columns}),
        transposed_(matrix.transposed),
        data_(matrix.data) {
    if (matrix.row_stride == stored_.columns || stored_.rows == 1) return;
    copy_ = std::make_unique_for_overwrite<T[]>(
        static_cast<std::size_t>(stored_.rows * stored_.columns));
    for (std::int64_t row = 0; row < stored_.rows; ++row)
      std::copy_n(matrix.data + row * matrix.row_stride, stored_.columns,
                  copy_.get() + row * stored_.columns);
    data_ = copy_.get();
  }

  const T* data() const { return data_; }
  bool transposed() const { return transposed_; }
  std::int64_t row_stride() const { return stored_.columns; }

 private:
  Stored stored_;
  bool transposed_;
  const T* data_;
  std::unique_ptr<T[]> copy_;
};

/// The result of a product, without gaps between its rows: the target itself, or a temporary that
/// put_back() copies to the target.
template <class T>
class DenseResult {
 public:
  DenseResult(T* data, std::int64_t rows, std::int64_t columns, std::int64_t row_stride, bool read)
      : target_(data), rows_(rows), columns_(columns), row_stride_(row_stride) {
    if (row_stride == columns || rows == 1) return;
    copy_ = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(rows * columns));
    for (std::int64_t row = 0; read && row < rows; ++row)
      std::copy_n(target_ + row * row_stride, columns, copy_.get() + row * columns);
  }

  T* data() { return copy_ ? copy_.get() : target_; }

  /// Copies the result to the target.
  void put_back() const {
    for (std::int64_t row = 0; copy_ && row < rows_; ++row)
      std::copy_n(copy_.get() + row * columns_, columns_, target_ + row * row_stride_);
  }

 private:
  T* target_;
  std::int64_t rows_, columns_, row_stride_;
  std::unique_ptr<T[]> copy_;
};

/// Returns whether oneDNN uses these instructions here. The processor must have them, and
/// ONEDNN_MAX_CPU_ISA, if set, must allow them. An instruction set's value contains the bits of
/// every set that it extends.
bool has(dnnl_cpu_isa_t instructions) {
  return (dnnl_get_effective_cpu_isa() & instructions) == instructions;
}

void check(dnnl_status_t status) {
  if (status != dnnl_success)
    throw std::runtime_error(std::string("oneDNN can't multiply: ") + dnnl_status2str(status));
}

}  // namespace

void gemm(Extents extents, float alpha, Matrix a, Matrix b, float beta, float* c,
          std::int64_t c_row_stride) {
  use_one_thread();
  const auto& [m, n, k] = extents;
  const Dense left{a, m, k};
  const Dense right{b, k, n};
  DenseResult<float> result{c, m, n, c_row_stride, beta != 0.0F};
  check(dnnl_sgemm(left.transposed() ? 'T' : 'N', right.transposed() ? 'T' : 'N', m, n, k, alpha,
                   left.data(), left.row_stride(), right.data(), right.row_stride(), beta,
                   result.data(), n));
  result.put_back();
}

bool multiplies_bf16() {
  static const bool possible = has(dnnl_cpu_isa_avx512_core_bf16);
  return possible;
}

namespace {

using dnnl::memory;

/// Generated code for a product of bf16 matrices with given extents.
class Bf16Product {
 public:
  Bf16Product(Extents extents, bool a_transposed, bool b_transposed, bool accumulate,
              memory::data_type c)
      : engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_),
        a_(matrix(extents.m, extents.k, memory::data_type::bf16, a_transposed)),
        b_(matrix(extents.k, extents.n, memory::data_type::bf16, b_transposed)),
        c_(matrix(extents.m, extents.n, c, false)) {
    dnnl::primitive_attr attributes;
    if (accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
#if DNNL_VERSION_MAJOR >= 3
    matmul_ = dnnl::matmul{{engine_, a_, b_, c_, attributes}};
#else
    matmul_ = dnnl::matmul{{{a_, b_, c_}, attributes, engine_}};
#endif
  }

  void operator()(const std::uint16_t* a, const std::uint16_t* b, void* c) {
    const auto at = [&](const memory::desc& matrix, const void* data) {
      return memory{matrix, engine_, const_cast<void*>(data)};
    };
    matmul_.execute(
        stream_,
        {{DNNL_ARG_SRC, at(a_, a)}, {DNNL_ARG_WEIGHTS, at(b_, b)}, {DNNL_ARG_DST, at(c_, c)}});
  }

 private:
  static memory::desc matrix(std::int64_t rows, std::int64_t columns, memory::data_type type,
                             bool transposed) {
    return {{rows, columns}, type, transposed ? memory::dims{1, rows} : memory::dims{columns, 1}};
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  memory::desc a_, b_, c_;
  dnnl::matmul matmul_;
};

/// Returns the code for these extents, which is created when a thread first uses them. oneDNN
/// caches generated code for all threads, so a second thread does not generate it again.
Bf16Product& bf16_product(Extents extents, bool a_transposed, bool b_transposed, bool accumulate,
                          memory::data_type c) {
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, bool, bool>;
  thread_local std::map<Key, Bf16Product> products;
  const auto& [m, n, k] = extents;
  return products
      .try_emplace({m, n, k, a_transposed, b_transposed, accumulate, c == memory::data_type::f32},
                   extents, a_transposed, b_transposed, accumulate, c)
      .first->second;
}

template <class T>
void gemm_bf16_to(Extents extents, Bf16Matrix a, Bf16Matrix b, bool accumulate, View c,
                  memory::data_type type) {
  const auto& [m, n, k] = extents;
  const Dense left{a, m, k};
  const Dense right{b, k, n};
  DenseResult<T> result{static_cast<T*>(c.data), m, n, c.row_stride, accumulate};
  bf16_product(extents, a.transposed, b.transposed, accumulate, type)(left.data(), right.data(),
                                                                      result.data());
  result.put_back();
}

/// Returns the name of the most advanced instruction set that oneDNN uses here.
std::string instructions() {
  if (has(dnnl_cpu_isa_avx512_core_amx)) return "AVX-512 and AMX";
  if (has(dnnl_cpu_isa_avx512_core_bf16)) return "AVX-512 with BF16";
  if (has(dnnl_cpu_isa_avx512_core)) return "AVX-512";
  if (has(dnnl_cpu_isa_avx2)) return "AVX2";
  if (has(dnnl_cpu_isa_avx)) return "AVX";
  return "SSE4.1";
}

}  // namespace

void gemm_bf16(Extents extents, Bf16Matrix a, Bf16Matrix b, bool accumulate, View c) {
  use_one_thread();
  if (c.dtype == DType::f32)
    gemm_bf16_to<float>(extents, a, b, accumulate, c, memory::data_type::f32);
  else
    gemm_bf16_to<std::uint16_t>(extents, a, b, accumulate, c, memory::data_type::bf16);
}

std::string gemm_library() {
  const dnnl::version_t& version = *dnnl::version();
  return "oneDNN " + std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
         std::to_string(version.patch) + ", " + instructions();
}

}  // namespace lockstep::cpu
