#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep {

/// What a piece of memory is for. "16 bytes per parameter" is the first three.
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

/// Bytes per category, now and at their highest; exact, since everything is allocated and released
/// on the rank's own thread, in program order.
struct MemoryUse {
  std::array<std::int64_t, memory_category_count> bytes{};
  std::int64_t of(MemoryCategory category) const {
    return bytes[static_cast<std::size_t>(category)];
  }
  std::int64_t total() const;
};

}  // namespace lockstep
