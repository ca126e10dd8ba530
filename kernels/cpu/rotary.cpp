/// Rotary positions: reads and writes each element of x once.

#include <fmt/format.h>

#include <stdexcept>

#include "kernels/arguments.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/element.h"

namespace lockstep::cpu {
namespace {

void rotary(Queue, InOut x, int heads, In32 table, Indices positions, bool inverse) {
  const arguments::Rotary n = arguments::rotary(x, heads, table, positions);
  // Checks all positions before the kernel writes anything.
  for (std::int64_t i = 0; i < n.positions; ++i)
    if (const std::int32_t position = positions.i32()[i]; position < 0 || position >= n.table)
      throw std::out_of_range(fmt::format(
          "rotary: position {}, number {}, is outside the table [0, {})", position, i, n.table));
  const std::int64_t half = n.d / 2;
  const float sign = inverse ? -1.0F : 1.0F;
  for (std::int64_t row = 0; row < n.rows; ++row) {
    const float* const cosines = table.f32() + positions.i32()[row % n.positions] * n.d;
    const float* const sines = cosines + half;
    for (std::int64_t head = 0; head < n.heads; ++head) {
      float* const left = x.f32() + row * x.row_stride + head * n.d;
      float* const right = left + half;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < half; ++i) {
        const element::Point to =
            element::rotated({left[i], right[i]}, cosines[i], sign * sines[i]);
        left[i] = to.x;
        right[i] = to.y;
      }
    }
  }
}

}  // namespace

void set_rotary(Kernels& kernels) {
  kernels.rotary = rotary;
}

}  // namespace lockstep::cpu
