#pragma once

#include <cstdint>

namespace lockstep {

/// The shapes of GPT-2 124M (12 layers, h 768, 12 heads, V 50257, s 1024) with batch 32.
struct Shapes {
  std::int64_t batch = 32, sequence = 1024, hidden = 768, vocabulary = 50257;
  int heads = 12;
  std::int64_t product = 8192;            ///< each extent of the large product
  std::int64_t copied = 256 << 20;        ///< bytes
  std::int64_t adamw = 32 << 20;          ///< parameters
  std::int64_t between_uses = 512 << 20;  ///< bytes used before a buffer is reused
  std::int64_t rows() const { return batch * sequence; }
};
/// Small shapes, which serve only to test that the program runs.
constexpr Shapes tiny{.batch = 2,
                      .sequence = 16,
                      .hidden = 64,
                      .vocabulary = 257,
                      .heads = 2,
                      .product = 64,
                      .copied = 1 << 16,
                      .adamw = 1000,
                      .between_uses = 1};

}  // namespace lockstep
