#pragma once

#include <cstdint>
#include <limits>

namespace lockstep::kineto {

/// Returns a rank, a count or an index as an int; -1 if it is negative or does not fit.
inline int index_from(std::int64_t number) {
  return number >= 0 && number <= std::numeric_limits<int>::max() ? static_cast<int>(number) : -1;
}

}  // namespace lockstep::kineto
