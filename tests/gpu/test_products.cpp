#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "kernels/cuda/matrix_products.h"
#include "tests/kernels/support.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using namespace lockstep::testing;
using cuda::ProductTable;

namespace {

constexpr std::size_t version = 7;
constexpr std::int64_t rows = 5, inner = 700, columns = 8;

/// Returns x w for fixed random matrices, as computed by a rank with this table.
std::vector<float> product(ProductTable& table) {
  Random random{30};
  std::vector<float> x(rows * inner), w(inner * columns), y(rows * columns);
  for (auto* matrix : {&x, &w})
    for (float& each : *matrix) each = random.normal();
  cudaStream_t stream = nullptr;
  LOCKSTEP_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  {
    const cuda::MatrixProducts products{[](Queue, In, Out) { FAIL("a copy"); }, false, table};
    const Queue queue{stream};
    const cuda::Scratch<float> a{queue, x.size()}, b{queue, w.size()}, d{queue, y.size()};
    const auto upload = [&](float* to, const std::vector<float>& from) {
      LOCKSTEP_CUDA(cudaMemcpyAsync(to, from.data(), from.size() * sizeof(float),
                                    cudaMemcpyHostToDevice, stream));
    };
    upload(a.data(), x), upload(b.data(), w);
    products.multiply(queue, {View{a.data(), {rows, inner}}}, {View{b.data(), {inner, columns}}},
                      {}, View{d.data(), {rows, columns}});
    LOCKSTEP_CUDA(cudaMemcpyAsync(y.data(), d.data(), y.size() * sizeof(float),
                                  cudaMemcpyDeviceToHost, stream));
    LOCKSTEP_CUDA(cudaStreamSynchronize(stream));
  }
  LOCKSTEP_CUDA(cudaStreamDestroy(stream));
  return y;
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream{path}.rdbuf();
  return text.str();
}

/// Returns the table's text with a different index of its only product.
std::string with_index(std::string text, int index) {
  const std::size_t line = text.find('\n') + 1;
  return text.replace(line, text.find(' ', line) - line, std::to_string(index));
}

}  // namespace

TEST_CASE("a table of matrix products is measured once, and then every rank uses its choice") {
  const TemporaryFolder folder;
  const std::string path = folder / "products";
  ProductTable made{path, version};
  const std::vector<float> first = product(made);
  const std::string text = text_of(path);
  CAPTURE(text);
  CHECK(text.starts_with("cuBLASLt 7\n"));
  CHECK(text.find(" 5 x 700 x 8 f32 on ") != std::string::npos);
  CHECK(product(made) == first);  // another rank of the process
  ProductTable read{path, version};
  CHECK(product(read) == first);  // a rank of another process
  CHECK(text_of(path) == text);
}

TEST_CASE("the table decides which algorithm a product uses") {
  const TemporaryFolder folder;
  const std::string path = folder / "products";
  {
    ProductTable made{path, version};
    product(made);
  }
  const std::string text = text_of(path);
  std::vector<std::vector<float>> results;
  for (const int index : {0, 2}) {
    std::ofstream{path} << with_index(text, index);
    ProductTable table{path, version};
    results.push_back(product(table));
  }
  ProductTable none{"", version};
  CHECK(product(none) == results[0]);
  cudaDeviceProp gpu{};
  LOCKSTEP_CUDA(cudaGetDeviceProperties(&gpu, 0));
  if (std::string{gpu.name} == "emulated GPU")  // whose algorithms add in different orders
    CHECK(results[0] != results[1]);

  std::ofstream{path} << "cuBLASLt 7\n";  // a product that the table lacks
  ProductTable empty{path, version};
  CHECK(product(empty) == results[0]);
  CHECK(text_of(path) == "cuBLASLt 7\n");
}

TEST_CASE("a table that does not fit is refused") {
  const TemporaryFolder folder;
  const std::string path = folder / "products";
  {
    ProductTable made{path, version};
    product(made);
  }
  CHECK_THROWS_AS((ProductTable{path, version + 1}), cuda::GpuError);
  const std::string changed = with_index(text_of(path), 8);
  std::ofstream{path} << changed;
  ProductTable too_many{path, version};
  CHECK_THROWS_AS(product(too_many), cuda::GpuError);
  std::ofstream{path} << "cuBLASLt 7\nx 5 x 700\n";
  CHECK_THROWS_AS((ProductTable{path, version}), cuda::GpuError);
  CHECK_THROWS_AS((ProductTable{folder / "no/folder", version}), cuda::GpuError);
}
