#include "core/device/host_copy.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

using namespace lockstep;

namespace {

struct Bench {
  explicit Bench(DeviceKind kind = DeviceKind::cpu)
      : memory(kind), compute(clock, silent, 0, kind) {}
  operator Device() { return {memory, compute}; }

  Clock clock = Clock::wall();
  Recorder silent{false};
  Memory memory;
  Stream compute;
};

std::vector<float> thirds(std::int64_t n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), -1.0F);
  for (float& value : values) value /= 3;
  return values;
}

}  // namespace

TEST_CASE("values come back from a device unchanged, except that 16-bit elements are rounded") {
  Bench bench;
  for (const auto& [dtype, unit] :
       {std::pair{DType::f32, 0.0}, {DType::bf16, 0x1p-9}, {DType::f16, 0x1p-12}}) {
    for (const std::int64_t n : {1, 7, 100}) {
      Tensor tensor{bench.memory, {n}, MemoryCategory::activations, dtype};
      const std::vector<float> values = thirds(n);
      from_host(bench, values, tensor);
      const std::vector<float> back = to_host(bench, tensor);
      REQUIRE(back.size() == values.size());
      for (std::size_t i = 0; i < values.size(); ++i)
        CHECK(std::abs(back[i] - values[i]) <= unit * 2 * std::abs(static_cast<double>(values[i])));
    }
  }
}

TEST_CASE("copying to a part of a tensor leaves the rest unchanged") {
  Bench bench;
  Tensor tensor{bench.memory, {10}, MemoryCategory::activations};
  from_host(bench, std::vector<float>(10, 5.0F), tensor);
  from_host(bench, std::vector<float>{1, 2, 3}, tensor.view().columns(4, 3));
  CHECK(to_host(bench, tensor) == std::vector<float>{5, 5, 5, 5, 1, 2, 3, 5, 5, 5});
  CHECK(to_host(bench, tensor.view().columns(5, 2)) == std::vector<float>{2, 3});
}

TEST_CASE("a wrong number of values, or a view that is not contiguous, is rejected") {
  Bench bench;
  Tensor tensor{bench.memory, {4, 4}, MemoryCategory::activations};
  CHECK_THROWS_AS(from_host(bench, std::vector<float>(15), tensor), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(to_host(bench, tensor.view().columns(1, 2))),
                  std::invalid_argument);
}

TEST_CASE("the meta device has nothing to copy") {
  Bench bench{DeviceKind::meta};
  Tensor tensor{bench.memory, {4}, MemoryCategory::activations};
  CHECK(to_host(bench, tensor).empty());
  CHECK_NOTHROW(from_host(bench, std::vector<float>(4), tensor));
}
