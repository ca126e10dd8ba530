#pragma once

#include <array>
#include <cstdint>

#include "kernels/view.h"

namespace lockstep {

/// Philox4x32-10 (Salmon 2011, "Parallel random numbers: as easy as 1, 2, 3"): 128 random bits as a
/// function of a 128-bit counter and a 64-bit key. No state: any rank can make any number.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key);

/// What random numbers are for; each purpose has a stream of its own.
enum class Purpose : std::uint32_t { initial_values, data, sampling };

/// One stream of random numbers: the seed is the key; purpose and `tensor` (an order, a step) are
/// half of the counter, an index the other half.
struct RandomStream {
  std::uint64_t seed = 0;
  Purpose purpose = Purpose::initial_values;
  std::uint32_t tensor = 0;

  /// 128 bits for block `index`.
  std::array<std::uint32_t, 4> bits(std::uint64_t index) const;
  /// Uniform in [0, 1), 53 bits.
  double uniform(std::uint64_t index) const;
  /// The standard normal numbers 4 `block` .. 4 `block` + 3 (Box and Muller 1958, in double).
  std::array<float, 4> normals(std::uint64_t block) const;
};

/// Fills `part`, rows `first_row`.. and columns `first_column`.. of a whole matrix that is
/// `whole_columns` wide, with mean + deviation * normal(index in the whole matrix). `part` may be
/// strided (View::columns); a vector is a matrix of one row. Host memory; nothing where data is
/// null.
void fill_normal(View part, const RandomStream& random, float mean, float deviation,
                 std::int64_t whole_columns, std::int64_t first_row = 0,
                 std::int64_t first_column = 0);

}  // namespace lockstep
