#include "core/base/memory_use.h"

#include <numeric>

namespace lockstep {

const char* name_of(MemoryCategory category) {
  constexpr const char* names[memory_category_count] = {"parameters", "gradients", "optimizer",
                                                        "activations", "communication"};
  return names[static_cast<std::size_t>(category)];
}

std::int64_t MemoryUse::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

}  // namespace lockstep
