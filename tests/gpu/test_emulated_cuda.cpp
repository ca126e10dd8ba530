// Tests of the emulator itself: its results must match CUDA's reference.

#include <cublasLt.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "emulator/device.h"
#include "kernels/element.h"

namespace {

__global__ void add_one(int* x) {
  x[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}
__global__ void misses_a_barrier() {
  if (threadIdx.x == 0) __syncthreads();
  if (threadIdx.x == 1) __syncthreads();
}

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  return stream;
}
template <class... Wanted, class... Given>
cudaError_t run(cudaStream_t stream, void (*kernel)(Wanted...), Given... given) {
  const cudaLaunchConfig_t config{.gridDim = {2}, .blockDim = {32}, .stream = stream};
  return cudaLaunchKernelEx(&config, kernel, given...);
}

}  // namespace

TEST_CASE("a kernel runs in stream order, and not before some thread waits") {
  cudaStream_t stream = make_stream();
  int* data = nullptr;
  CHECK(cudaMallocAsync(&data, 64 * sizeof(int), stream) == cudaSuccess);
  CHECK(cudaMemsetAsync(data, 0, 64 * sizeof(int), stream) == cudaSuccess);
  for (int i = 0; i < 3; ++i) CHECK(run(stream, add_one, data) == cudaSuccess);
  std::vector<int> host(64);
  CHECK(data[5] != 3);
  CHECK(cudaMemcpyAsync(host.data(), data, 64 * sizeof(int), cudaMemcpyDeviceToHost, stream) ==
        cudaSuccess);
  CHECK(host == std::vector<int>(64, 3));
  CHECK(cudaFreeAsync(data, stream) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("streams and events belong to the GPU that was current at their creation") {
  CHECK(cudaSetDevice(1) == cudaSuccess);
  cudaStream_t stream = make_stream();
  cudaEvent_t event = nullptr;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDefault) == cudaSuccess);
  CHECK(cudaSetDevice(0) == cudaSuccess);
  int* data = nullptr;
  CHECK(cudaMalloc(&data, 64 * sizeof(int)) == cudaSuccess);
  CHECK(run(stream, add_one, data) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(event, nullptr) == cudaErrorInvalidResourceHandle);
  // Waiting across GPUs is allowed.
  CHECK(cudaEventRecord(event, stream) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(nullptr, event) == cudaSuccess);
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(cudaEventQuery(event) == cudaSuccess);
  CHECK(cudaFree(data) == cudaSuccess);
  int count = 0;
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(cudaSetDevice(count) == cudaErrorInvalidDevice);
  CHECK(cudaEventDestroy(event) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("events: one never recorded has passed; timing needs both recorded and passed") {
  cudaStream_t stream = make_stream();
  cudaEvent_t from = nullptr;
  cudaEvent_t to = nullptr;
  cudaEventCreateWithFlags(&from, cudaEventDefault);
  cudaEventCreateWithFlags(&to, cudaEventDefault);
  float milliseconds = -1.0F;
  CHECK(cudaEventQuery(from) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(stream, from) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, from, to) == cudaErrorInvalidResourceHandle);
  cudaEventRecord(from, stream);
  cudaEventRecord(to, stream);
  CHECK(cudaEventElapsedTime(&milliseconds, from, to) == cudaErrorNotReady);
  CHECK(cudaEventSynchronize(to) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, from, to) == cudaSuccess);
  CHECK(milliseconds >= 0.0F);
  cudaEventDestroy(from);
  cudaEventDestroy(to);
  cudaStreamDestroy(stream);
  cudaGetLastError();
}

TEST_CASE("a kernel's error is returned by every later call, on its GPU only") {
  cudaStream_t stream = make_stream();
  CHECK(run(stream, misses_a_barrier) == cudaSuccess);
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDefault);
  CHECK(cudaEventRecord(event, stream) == cudaSuccess);
  CHECK(cudaEventSynchronize(event) == cudaErrorLaunchFailure);
  CHECK(std::string{cudaGetErrorString(cudaErrorLaunchFailure)}.find("barrier") !=
        std::string::npos);
  void* data = nullptr;
  CHECK(cudaMallocAsync(&data, 4, stream) == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(cudaSetDevice(1) == cudaSuccess);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(cudaSetDevice(0) == cudaSuccess);
  CHECK(emulator::take_failure().find("barrier") != std::string::npos);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  cudaEventDestroy(event);
  cudaStreamDestroy(stream);
}

namespace {

/// A matrix of random numbers on GPU 0, in some layout and type, and the values that it represents.
struct Matrix {
  std::int64_t rows, columns, ld;
  bool row_major, transposed;
  cudaDataType type;
  std::vector<float> values;  ///< of op(matrix), row-major
  void* data = nullptr;
  cublasLtMatrixLayout_t layout = nullptr;

  std::size_t bytes() const {
    return static_cast<std::size_t>(ld * (row_major ? rows : columns)) *
           (type == CUDA_R_32F ? 4U : 2U);
  }
  std::size_t place(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(row_major ? i * ld + j : j * ld + i);
  }
};

float rounded(float x, cudaDataType type) {
  using namespace lockstep::element;
  return type == CUDA_R_16BF ? from_bf16(to_bf16(x)) : type == CUDA_R_16F ? from_f16(to_f16(x)) : x;
}
void write(std::vector<std::byte>& to, std::size_t i, cudaDataType type, float x) {
  using namespace lockstep::element;
  const std::uint16_t narrow = type == CUDA_R_16BF ? to_bf16(x) : to_f16(x);
  if (type == CUDA_R_32F)
    std::memcpy(&to[4 * i], &x, 4);
  else
    std::memcpy(&to[2 * i], &narrow, 2);
}
float read(const std::vector<std::byte>& from, std::size_t i, cudaDataType type) {
  using namespace lockstep::element;
  float x = 0.0F;
  std::uint16_t narrow = 0;
  if (type == CUDA_R_32F)
    std::memcpy(&x, &from[4 * i], 4);
  else
    std::memcpy(&narrow, &from[2 * i], 2);
  return type == CUDA_R_32F ? x : type == CUDA_R_16BF ? from_bf16(narrow) : from_f16(narrow);
}

/// Returns a matrix for which op(matrix) is (rows, columns).
Matrix random_matrix(std::mt19937& random, std::int64_t rows, std::int64_t columns,
                     cudaDataType type, bool may_transpose) {
  Matrix m{rows, columns, 0, random() % 2 == 0, may_transpose && random() % 2 == 0, type, {}};
  if (m.transposed) std::swap(m.rows, m.columns);
  m.ld = (m.row_major ? m.columns : m.rows) + static_cast<std::int64_t>(random() % 3);
  std::uniform_real_distribution<float> uniform{-1.0F, 1.0F};
  std::vector<std::byte> host(m.bytes(), std::byte{0xFF});
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      m.values.push_back(rounded(uniform(random), type));
      write(host, m.transposed ? m.place(j, i) : m.place(i, j), type, m.values.back());
    }
  CHECK(cudaMalloc(&m.data, host.size()) == cudaSuccess);
  CHECK(cudaMemcpy(m.data, host.data(), host.size(), cudaMemcpyHostToDevice) == cudaSuccess);
  cublasLtMatrixLayoutCreate(&m.layout, type, static_cast<std::uint64_t>(m.rows),
                             static_cast<std::uint64_t>(m.columns), m.ld);
  const cublasLtOrder_t order = m.row_major ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
  cublasLtMatrixLayoutSetAttribute(m.layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order);
  return m;
}

}  // namespace

TEST_CASE("cuBLASLt's product is the plain sums, in any layout and type") {
  std::mt19937 random{5};
  cublasLtHandle_t handle = nullptr;
  cublasLtCreate(&handle);
  for (int trial = 0; trial < 60; ++trial) {
    const cudaDataType type =
        std::vector<cudaDataType>{CUDA_R_32F, CUDA_R_16BF, CUDA_R_16F}[random() % 3];
    const auto m = static_cast<std::int64_t>(1 + random() % 20);
    const auto n = static_cast<std::int64_t>(1 + random() % 20);
    const auto k = static_cast<std::int64_t>(1 + random() % 20);
    Matrix a = random_matrix(random, m, k, type, true);
    Matrix b = random_matrix(random, k, n, type, true);
    Matrix c = random_matrix(random, m, n, type, false);
    Matrix bias = random_matrix(random, m, 1, CUDA_R_32F, false);
    bias.ld = 1;
    std::vector<float> packed_bias = bias.values;
    cudaMemcpy(bias.data, packed_bias.data(), packed_bias.size() * 4, cudaMemcpyHostToDevice);

    cublasLtMatmulDesc_t product = nullptr;
    cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const cublasOperation_t op_a = a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_b = b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const auto epilogue =
        std::vector<cublasLtEpilogue_t>{CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS,
                                        CUBLASLT_EPILOGUE_GELU_BIAS}[random() % 3];
    const int bias_type = CUDA_R_32F;
    cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a);
    cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b);
    cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                   sizeof epilogue);
    cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias.data,
                                   sizeof bias.data);
    cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type,
                                   sizeof bias_type);
    const float alpha = trial % 2 == 0 ? 1.0F : 0.5F;
    const float beta = trial % 3 == 0 ? 0.0F : 1.0F;
    CHECK(cublasLtMatmul(handle, product, &alpha, a.data, a.layout, b.data, b.layout, &beta, c.data,
                         c.layout, c.data, c.layout, nullptr, nullptr, 0,
                         nullptr) == CUBLAS_STATUS_SUCCESS);
    std::vector<std::byte> host(c.bytes());
    CHECK(cudaMemcpy(host.data(), c.data, host.size(), cudaMemcpyDeviceToHost) == cudaSuccess);

    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0.0;
        for (std::int64_t l = 0; l < k; ++l)
          sum += static_cast<double>(a.values[static_cast<std::size_t>(i * k + l)]) *
                 static_cast<double>(b.values[static_cast<std::size_t>(l * n + j)]);
        double expected = static_cast<double>(alpha) * sum +
                          static_cast<double>(beta) *
                              static_cast<double>(c.values[static_cast<std::size_t>(i * n + j)]);
        if (epilogue != CUBLASLT_EPILOGUE_DEFAULT)
          expected += static_cast<double>(packed_bias[static_cast<std::size_t>(i)]);
        if (epilogue == CUBLASLT_EPILOGUE_GELU_BIAS)
          expected *=
              0.5 * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) *
                                     (expected + 0.044715 * expected * expected * expected)));
        const double unit = type == CUDA_R_32F ? 1e-6 : type == CUDA_R_16F ? 1e-3 : 8e-3;
        CHECK(std::abs(static_cast<double>(read(host, c.place(i, j), type)) - expected) <=
              4 * unit * std::max(1.0, std::abs(expected)));
      }
    for (const Matrix* x : {&a, &b, &c, &bias}) {
      cudaFree(x->data);
      cublasLtMatrixLayoutDestroy(x->layout);
    }
    cublasLtMatmulDescDestroy(product);
  }
  cublasLtDestroy(handle);
}

TEST_CASE("cuBLASLt's algorithm requires the workspace and the alignments promised to it") {
  std::mt19937 random{6};
  cublasLtHandle_t handle = nullptr;
  cublasLtCreate(&handle);
  const Matrix x = random_matrix(random, 8, 8, CUDA_R_32F, false);
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulPreferenceCreate(&preference);
  const std::uint64_t most = 1U << 20U;
  CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &most, sizeof most) == CUBLAS_STATUS_SUCCESS);
  const std::uint32_t alignment = 4;  // of every row, whatever the gaps between rows
  for (const auto which :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    CHECK(cublasLtMatmulPreferenceSetAttribute(preference, which, &alignment, sizeof alignment) ==
          CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulHeuristicResult_t result;
  int found = 0;
  CHECK(cublasLtMatmulAlgoGetHeuristic(handle, product, x.layout, x.layout, x.layout, x.layout,
                                       preference, 1, &result, &found) == CUBLAS_STATUS_SUCCESS);
  CHECK(found == 1);
  CHECK(result.workspaceSize <= most);
  void* workspace = nullptr;
  void* d = nullptr;
  cudaMalloc(&workspace, result.workspaceSize);
  cudaMalloc(&d, 1024);
  const float one = 1.0F;
  const float zero = 0.0F;
  const auto call = [&](void* to, void* scratch, std::size_t bytes) {
    return cublasLtMatmul(handle, product, &one, x.data, x.layout, x.data, x.layout, &zero, to,
                          x.layout, to, x.layout, &result.algo, scratch, bytes, nullptr);
  };
  CHECK(call(d, workspace, result.workspaceSize) == CUBLAS_STATUS_SUCCESS);
  CHECK(call(d, workspace, result.workspaceSize - 1) != CUBLAS_STATUS_SUCCESS);
  CHECK(call(d, nullptr, 0) != CUBLAS_STATUS_SUCCESS);
  CHECK(call(static_cast<std::byte*>(d) + 2, workspace, result.workspaceSize) !=
        CUBLAS_STATUS_SUCCESS);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  for (void* data : {x.data, workspace, d}) cudaFree(data);
  cublasLtMatrixLayoutDestroy(x.layout);
  cublasLtMatmulPreferenceDestroy(preference);
  cublasLtMatmulDescDestroy(product);
  cublasLtDestroy(handle);
}
