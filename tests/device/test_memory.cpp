#include <doctest/doctest.h>

#include "core/device/tensor.h"

using namespace lockstep;

TEST_CASE("the account holds what is in use, and its highest") {
  Memory memory;
  Tensor kept{memory, {4, 8}, MemoryCategory::parameters};
  {
    Tensor brief{memory, {100}, MemoryCategory::activations};
    CHECK(memory.current().of(MemoryCategory::activations) == 400);
    brief.charge_to(MemoryCategory::communication);
    CHECK(memory.current().of(MemoryCategory::activations) == 0);
    CHECK(memory.current().of(MemoryCategory::communication) == 400);
  }
  CHECK(memory.current().total() == 128);
  CHECK(memory.peak().of(MemoryCategory::activations) == 400);
  CHECK(memory.peak().of(MemoryCategory::communication) == 400);
  CHECK(memory.peak_total() == 528);
}

TEST_CASE("the meta device counts and allocates nothing") {
  Memory memory{DeviceKind::meta};
  Tensor huge{memory, {1 << 20, 1 << 20}, MemoryCategory::activations};
  CHECK(static_cast<bool>(huge));
  CHECK(huge.f32() == nullptr);
  CHECK(memory.peak_total() == (std::int64_t{1} << 42));
}
