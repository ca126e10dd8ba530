#include "core/model/philox.h"

#include <cmath>
#include <numbers>

namespace lockstep {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t multiplier_0 = 0xD2511F53, multiplier_1 = 0xCD9E8D57;
  constexpr std::uint32_t weyl_0 = 0x9E3779B9, weyl_1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product_0 = multiplier_0 * counter[0];
    const std::uint64_t product_1 = multiplier_1 * counter[2];
    counter = {static_cast<std::uint32_t>(product_1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product_1),
               static_cast<std::uint32_t>(product_0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product_0)};
    key = {key[0] + weyl_0, key[1] + weyl_1};
  }
  return counter;
}

std::array<std::uint32_t, 4> RandomStream::bits(std::uint64_t index) const {
  return philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), tensor,
                 static_cast<std::uint32_t>(purpose)},
                {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

double RandomStream::uniform(std::uint64_t index) const {
  const auto word = bits(index);
  const std::uint64_t wide = (std::uint64_t{word[0]} << 32) | word[1];
  return static_cast<double>(wide >> 11) * 0x1p-53;
}

std::array<float, 4> RandomStream::normals(std::uint64_t block) const {
  const auto word = bits(block);
  std::array<float, 4> normal{};
  for (std::size_t pair = 0; pair < 4; pair += 2) {
    // u is in (0, 1], so its logarithm is finite.
    const double u = (static_cast<double>(word[pair]) + 1) * 0x1p-32;
    const double angle = 2 * std::numbers::pi * static_cast<double>(word[pair + 1]) * 0x1p-32;
    const double radius = std::sqrt(-2 * std::log(u));
    normal[pair] = static_cast<float>(radius * std::cos(angle));
    normal[pair + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return normal;
}

void fill_normal(View part, const RandomStream& random, float mean, float deviation,
                 std::int64_t whole_columns, std::int64_t first_row, std::int64_t first_column) {
  if (!part) return;
  for (std::int64_t row = 0; row < part.shape.rows(); ++row) {
    float* to = part.f32() + row * part.row_stride;
    const std::int64_t first = (first_row + row) * whole_columns + first_column;
    std::array<float, 4> normal{};
    for (std::int64_t column = 0; column < part.shape.last(); ++column) {
      const auto index = static_cast<std::uint64_t>(first + column);
      if (column == 0 || index % 4 == 0) normal = random.normals(index / 4);
      to[column] = mean + deviation * normal[index % 4];
    }
  }
}

}  // namespace lockstep
