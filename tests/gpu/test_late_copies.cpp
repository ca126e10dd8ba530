#include <doctest/doctest.h>

#include <cmath>

#include "emulator/device.h"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/shared.cuh"

// The emulator completes cp.async as late as allowed, so a missing wait must have a visible effect.
namespace {

using namespace lockstep::cuda;

/// Starts two groups of copies; records the data before any wait, after waiting for the first
/// group, and after waiting for both.
__global__ void copies(const float* from, float* seen) {
  auto* const shared = dynamic_shared<float>();
  shared[0] = shared[4] = shared[8] = 1.0F;
  ptx::cp_async_16(shared, from, true);
  ptx::cp_async_commit();
  ptx::cp_async_16(shared + 4, from + 4, true);
  ptx::cp_async_4(shared + 8, from, false);
  ptx::cp_async_commit();
  const auto look = [&](float* to) { to[0] = shared[0], to[1] = shared[4], to[2] = shared[8]; };
  look(seen);
  ptx::cp_async_wait<1>();
  look(seen + 3);
  ptx::cp_async_wait<0>();
  look(seen + 6);
}

}  // namespace

TEST_CASE("a copy arrives when its group is waited for; until then its destination is NaN") {
  alignas(16) const float from[8] = {2, 0, 0, 0, 3, 0, 0, 0};
  float seen[9];
  emulator::run_grid({{1, 1, 1}, {1, 1, 1}, 4096}, [&] { copies(from, seen); });
  for (int i = 0; i < 3; ++i) CHECK(std::isnan(seen[i]));
  CHECK(seen[3] == 2.0F);
  CHECK(std::isnan(seen[4]));
  CHECK(seen[6] == 2.0F);
  CHECK(seen[7] == 3.0F);
  CHECK(seen[8] == 0.0F);  // source out of range: zero-filled
}
