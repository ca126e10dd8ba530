#include <doctest/doctest.h>

#include "kernels/element.h"
#include "tests/gpu/ptx_kernels.h"
#include "tests/kernels/support.h"

// The register layouts that attention relies on. The kernels fill registers as in the PTX ISA
// manual's figures; the emulator's instructions read the registers according to the manual's
// formulas. On a GPU, the hardware determines the layouts.

using namespace lockstep;
using namespace lockstep::testing;

TEST_CASE("mma adds the product of its operands") {
  Random random{60};
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto wide = [&](std::uint16_t bits) {
      return dtype == DType::bf16 ? element::from_bf16(bits) : element::from_f16(bits);
    };
    const auto numbers = [&](int count) {
      Words words;
      for (int i = 0; i < count; ++i)
        words.push_back(dtype == DType::bf16 ? element::to_bf16(random.normal())
                                             : element::to_f16(random.normal()));
      return words;
    };
    const Words a = numbers(256), b = numbers(128);
    std::vector<float> c;
    for (int i = 0; i < 128; ++i) c.push_back(random.normal());
    const std::vector<float> result = mma(dtype, a, b, c);
    for (std::size_t i = 0; i < 16; ++i)
      for (std::size_t j = 0; j < 8; ++j) {
        double want = c[8 * i + j];
        for (std::size_t k = 0; k < 16; ++k) want += wide(a[16 * i + k]) * wide(b[8 * k + j]);
        CHECK(std::abs(result[8 * i + j] - want) < 1e-4);
      }
  }
}

TEST_CASE("ldmatrix distributes matrices by rows or by columns, as in the manual") {
  Words matrices;
  for (std::uint16_t i = 0; i < 256; ++i) matrices.push_back(i);
  const auto rows = ldmatrix(matrices, false), columns = ldmatrix(matrices, true);
  // Thread 0 holds the first two elements of row 0, thread 1 the next two, and thread 31 the last
  // two of row 7.
  CHECK(rows[0] == 0x00010000U);
  CHECK(rows[4] == 0x00030002U);
  CHECK(rows[4 * 31] == 0x003f003eU);
  CHECK(rows[4 * 31 + 3] == 0x00ff00feU);
  // Transposed: thread 0 holds element 0 of rows 0 and 1, thread 1 holds element 0 of rows 2 and 3,
  // and thread 31 holds element 7 of rows 6 and 7.
  CHECK(columns[0] == 0x00080000U);
  CHECK(columns[4] == 0x00180010U);
  CHECK(columns[4 * 31] == 0x003f0037U);
  CHECK(columns[4 * 4 + 1] == 0x00490041U);
}
