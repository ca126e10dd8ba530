#pragma once

/// Reductions in a fixed order that the compiler can still vectorise.
///
/// A floating-point sum depends on its order, which a compiler may not change, so the source itself
/// specifies an order with 32 lanes: element i goes to lane i mod 32, each lane adds in ascending
/// order, and the lanes are folded by halves (lane l + lane l + 16, then + 8, ...). The result
/// depends on the values and their count, not on alignment or vector width.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace lockstep::cpu {

inline constexpr int lanes = 32;

/// Folds value(0), ..., value(n - 1) with `combine`, starting each lane with `start`.
template <typename Accumulator, typename Value, typename Combine>
inline Accumulator lane_reduce(std::int64_t n, Accumulator start, Value value, Combine combine) {
  Accumulator lane[lanes];
  for (int l = 0; l < lanes; ++l) lane[l] = start;
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int l = 0; l < lanes; ++l) lane[l] = combine(lane[l], value(i + l));
  for (int l = 0; i < n; ++i, ++l) lane[l] = combine(lane[l], value(i));
  for (int width = lanes / 2; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) lane[l] = combine(lane[l], lane[l + width]);
  return lane[0];
}

/// Returns Σ value(i), accumulated in type Accumulator.
template <typename Accumulator = float, typename Value>
inline Accumulator lane_sum(std::int64_t n, Value value) {
  return lane_reduce(n, Accumulator{0}, value, [](Accumulator a, Accumulator b) { return a + b; });
}

/// Returns the largest of x[0 .. n), or -∞ if n is 0. May ignore NaN.
inline float lane_max(std::int64_t n, const float* x) {
  return lane_reduce(
      n, -std::numeric_limits<float>::infinity(), [x](std::int64_t i) { return x[i]; },
      [](float a, float b) { return b > a ? b : a; });
}

/// Adds column sums, such as bias gradients: out[c] += Σ_r value(r, c). Rows are added in ascending
/// order, 32 at a time into partial sums, which keeps the rounding error small over thousands of
/// rows; the total is added to `out` once. Works row by row in tiles of columns, so that a tile's
/// sums stay in the L1 cache. Evaluates each value once.
template <typename Value>
inline void add_column_sums(std::int64_t rows, std::int64_t columns, Value value, float* out) {
  constexpr std::int64_t row_block = 32;
  constexpr std::int64_t tile = 512;
  std::array<float, tile> partial, total;
  for (std::int64_t first = 0; first < columns; first += tile) {
    const std::int64_t width = std::min(tile, columns - first);
    total.fill(0.0F);
    for (std::int64_t row = 0; row < rows; row += row_block) {
      partial.fill(0.0F);
      for (std::int64_t r = row; r < std::min(rows, row + row_block); ++r)
        for (std::int64_t c = 0; c < width; ++c)
          partial[static_cast<std::size_t>(c)] += value(r, first + c);
      for (std::size_t c = 0; c < tile; ++c) total[c] += partial[c];
    }
    for (std::int64_t c = 0; c < width; ++c) out[first + c] += total[static_cast<std::size_t>(c)];
  }
}

}  // namespace lockstep::cpu
