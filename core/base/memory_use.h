#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep {

/// The purpose of allocated memory. The first three categories make up the well-known "16 bytes per
/// parameter".
enum class MemoryCategory : std::uint8_t {
  parameters,
  gradients,
  optimizer,
  activations,
  communication
};
constexpr int memory_category_count = 5;
inline constexpr std::array all_memory_categories{
    MemoryCategory::parameters, MemoryCategory::gradients, MemoryCategory::optimizer,
    MemoryCategory::activations, MemoryCategory::communication};
const char* name_of(MemoryCategory category);

/// Limits on the division of a rank's memory, which both the writer and the reader of a trace
/// enforce: on the number of parts (MemoryParts), of distinct states, and of all differences
/// between successive states.
constexpr std::size_t most_memory_parts = 8192, most_memory_states = 4096;
constexpr std::size_t most_memory_changes = std::size_t{1} << 18;
/// The largest number of bytes in a part. Sums over parts fit in 64 bits.
constexpr std::int64_t most_part_bytes = std::int64_t{1} << 46;

/// The number of bytes in use per category, or each category's peak. The numbers are exact, because
/// a rank allocates and frees memory on its own thread, in program order.
struct MemoryUse {
  std::array<std::int64_t, memory_category_count> bytes{};
  std::int64_t of(MemoryCategory category) const {
    return bytes[static_cast<std::size_t>(category)];
  }
  std::int64_t total() const;
};

}  // namespace lockstep
