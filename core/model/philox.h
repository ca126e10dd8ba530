#pragma once

#include <array>
#include <cstdint>

#include "kernels/view.h"

namespace lockstep {

/// Philox4x32-10 (Salmon 2011, "Parallel random numbers: as easy as 1, 2, 3"): maps a 128-bit
/// counter and a 64-bit key to 128 random bits. It has no state, so any rank can generate any
/// number.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key);

/// The purpose of random numbers; each purpose has its own stream.
enum class Purpose : std::uint32_t { initial_values, data, sampling, documents };

/// One stream of random numbers. The seed is the key. Half of the counter is the purpose and
/// `tensor` (a parameter's order, or a step); the other half is the index.
struct RandomStream {
  std::uint64_t seed = 0;
  Purpose purpose = Purpose::initial_values;
  std::uint32_t tensor = 0;

  /// Returns the 128 bits of block `index`.
  std::array<std::uint32_t, 4> bits(std::uint64_t index) const;
  /// Returns a number uniform in [0, 1), with 53 random bits.
  double uniform(std::uint64_t index) const;
  /// Returns the standard normal numbers 4 `block` .. 4 `block` + 3 (Box and Muller 1958, in
  /// double).
  std::array<float, 4> normals(std::uint64_t block) const;
};

/// Fills `part` with mean + deviation * normal(index in the whole matrix). `part` begins at
/// `first_row` and `first_column` of a matrix that is `whole_columns` wide, and may be strided
/// (View::columns); a vector is a matrix with one row. Host memory only. Does nothing if `part` has
/// no data.
void fill_normal(View part, const RandomStream& random, float mean, float deviation,
                 std::int64_t whole_columns, std::int64_t first_row = 0,
                 std::int64_t first_column = 0);

}  // namespace lockstep
