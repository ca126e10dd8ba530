#pragma once

/// Replaces tests/gpu/variants/wgmma.cuh with the same functions, written from the PTX ISA manual.
///
/// A product reads its operands in shared memory either when it is issued or when the thread waits
/// for it, at random, so a kernel that overwrites them too early, or has not waited for its copies,
/// computes a wrong result. Meanwhile its sums are NaN. Sums are those of the calling thread, which
/// reads all of the operands that it needs; only the registers of the left operand are exchanged
/// within the warp.
///
/// Not emulated: wgmma_fence and fence_for_tensor_cores. A kernel that lacks them passes here.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cuda/ptx.cuh"

namespace lockstep::cuda::ptx {

inline constexpr int panel_columns = 64;
using WgmmaSums = float[8][4];

constexpr int piece_at(int row, int piece) {
  return row * panel_columns + (piece ^ row % 8) * 8;
}

namespace emulated {

/// One product in flight, as one thread sees it.
struct Product {
  float (*d)[4];
  bool adds, a_in_shared, b_by_rows, reads_at_issue;
  std::uint64_t a_descriptor, b_descriptor;
  unsigned group;
  float a[2][16] = {};   ///< the thread's two rows of the left operand
  float b[16][16] = {};  ///< the thread's 16 columns of the right operand, transposed
};
struct Products {
  unsigned open = 0;  ///< the group of the next product
  std::vector<Product> pending;
  /// Sums that are in flight, with their value before the first pending product.
  std::vector<std::pair<float (*)[4], std::array<float, 32>>> sums;
};
inline Products& products() {
  static std::array<Products, 1024> all;
  return all[emulator::thread_rank()];
}
inline bool flip() {
  static std::mt19937 engine{1};
  return engine() % 2 == 0;
}

/// "Shared Memory Matrix Layout", 128-byte swizzle: bits 4-6 of an address are exclusive-ored with
/// bits 7-9. Row `row` lies at the descriptor's distance of eight rows, and at 128 bytes within
/// eight rows.
inline float element_of_panel(std::uint64_t descriptor, unsigned row, unsigned column) {
  const auto field = [&](unsigned bit) {
    return static_cast<unsigned>(descriptor >> bit & 0x3fffU) << 4U;
  };
  unsigned at = field(0) + row / 8 * field(32) + row % 8 * 128 + column * 2;
  at ^= (at >> 7U & 7U) << 4U;
  std::uint16_t bits;
  std::memcpy(&bits, static_cast<std::byte*>(emulator::dynamic_shared_memory()) + at, sizeof bits);
  return element::from_bf16(bits);
}

/// Row and column of a thread's element r of sums j; "Register Fragments for wgmma.mma_async".
inline unsigned row_of_sum(unsigned r) {
  return emulator::thread_rank() / 32 % 4 * 16 + emulator::lane() / 4 + r / 2 * 8;
}
inline unsigned column_of_sum(unsigned j, unsigned r) {
  return 8 * j + emulator::lane() % 4 * 2 + r % 2;
}

inline void read_shared(Product& product) {
  for (unsigned k = 0; k < 16; ++k) {
    for (unsigned half = 0; half < 2 && product.a_in_shared; ++half)
      product.a[half][k] = element_of_panel(product.a_descriptor, row_of_sum(2 * half), k);
    for (unsigned c = 0; c < 16; ++c) {
      const unsigned column = column_of_sum(c / 2, c % 2);
      product.b[c][k] = product.b_by_rows ? element_of_panel(product.b_descriptor, k, column)
                                          : element_of_panel(product.b_descriptor, column, k);
    }
  }
}

struct Left {
  const std::uint32_t* registers;
  Product* product;
};
/// Gives each lane its two rows of the left operand, whose registers are mma's.
inline void exchange_left(unsigned, void* const* lanes) {
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned half = 0; half < 2; ++half)
      for (unsigned k = 0; k < 16; ++k) {
        const auto& owner = *static_cast<const Left*>(lanes[lane / 4 * 4 + k % 8 / 2]);
        static_cast<const Left*>(lanes[lane])->product->a[half][k] =
            element_of<Bf16>(owner.registers[half + k / 8 * 2], static_cast<int>(k % 2));
      }
}

inline void issue(Product product) {
  Products& mine = products();
  product.group = mine.open;
  product.reads_at_issue = flip();
  if (product.reads_at_issue) read_shared(product);
  bool known = false;
  for (const auto& sums : mine.sums) known = known || sums.first == product.d;
  if (!known) {
    auto& sums = mine.sums.emplace_back();
    sums.first = product.d;
    std::memcpy(sums.second.data(), product.d, sizeof sums.second);
  }
  for (int i = 0; i < 32; ++i) product.d[i / 4][i % 4] = std::numeric_limits<float>::quiet_NaN();
  mine.pending.push_back(product);
}

inline void finish(Products& mine, Product& product) {
  if (!product.reads_at_issue) read_shared(product);
  for (auto& [d, sums] : mine.sums)
    if (d == product.d)
      for (unsigned i = 0; i < 32; ++i) {
        const unsigned j = i / 4, r = i % 4;
        float sum = product.adds ? sums[i] : 0.0F;
        for (unsigned k = 0; k < 16; ++k) sum += product.a[r / 2][k] * product.b[2 * j + r % 2][k];
        sums[i] = sum;
      }
}

}  // namespace emulated

inline std::uint64_t descriptor(const void* panel, unsigned leading = 16,
                                unsigned eight_rows = 1024,
                                std::source_location at = std::source_location::current()) {
  const auto offset = static_cast<const std::byte*>(panel) -
                      static_cast<std::byte*>(emulator::dynamic_shared_memory());
  if (offset % 1024 != 0) emulator::fail("a panel must be at a multiple of 1024 bytes", at);
  return static_cast<std::uint64_t>(offset) >> 4U | std::uint64_t{leading >> 4U} << 16U |
         std::uint64_t{eight_rows >> 4U} << 32U | std::uint64_t{1} << 62U;
}
inline std::uint64_t after_columns(std::uint64_t of, int columns) {
  return of + static_cast<unsigned>(columns * 2 / 16);
}
inline std::uint64_t after_rows(std::uint64_t of, int rows) {
  return of + static_cast<unsigned>(rows * panel_columns * 2 / 16);
}

inline void wgmma_fence() {}
inline void fence_for_tensor_cores() {}
inline void wgmma_commit() {
  ++emulated::products().open;
}
template <int pending>
void wgmma_wait() {
  emulated::Products& mine = emulated::products();
  std::vector<emulated::Product> later;
  for (emulated::Product& product : mine.pending)
    if (product.group + pending < mine.open)
      emulated::finish(mine, product);
    else
      later.push_back(product);
  mine.pending = later;
  std::erase_if(mine.sums, [&](const auto& sums) {
    for (const emulated::Product& product : mine.pending)
      if (product.d == sums.first) return false;
    std::memcpy(sums.first, sums.second.data(), sizeof sums.second);
    return true;
  });
}

template <bool adds>
void wgmma_shared(WgmmaSums& d, std::uint64_t a, std::uint64_t b,
                  std::source_location at = std::source_location::current()) {
  emulator::warp_collective(0xffffffffU, nullptr, nullptr, at);
  emulated::issue({.d = d,
                   .adds = adds,
                   .a_in_shared = true,
                   .b_by_rows = false,
                   .reads_at_issue = false,
                   .a_descriptor = a,
                   .b_descriptor = b,
                   .group = 0});
}
template <bool adds, bool b_by_rows>
void wgmma_registers(WgmmaSums& d, const std::uint32_t (&a)[4], std::uint64_t b,
                     std::source_location at = std::source_location::current()) {
  emulated::Product product{.d = d,
                            .adds = adds,
                            .a_in_shared = false,
                            .b_by_rows = b_by_rows,
                            .reads_at_issue = false,
                            .a_descriptor = 0,
                            .b_descriptor = b,
                            .group = 0};
  emulated::Left mine{a, &product};
  emulator::warp_collective(0xffffffffU, &mine, emulated::exchange_left, at);
  emulated::issue(product);
}

}  // namespace lockstep::cuda::ptx
