#pragma once

#include <array>
#include <cstdint>

#include "core/base/operation.h"

namespace lockstep {

/// The implementation of collectives: the algorithms of core/comm over point-to-point messages
/// (`--comm ring`), or the backend's own library.
enum class Collectives { built_in, native };

/// One value per operation.
template <class T>
class PerOperation {
 public:
  T& operator[](Operation operation) { return values_[static_cast<std::size_t>(operation)]; }
  const T& operator[](Operation operation) const {
    return values_[static_cast<std::size_t>(operation)];
  }
  bool operator==(const PerOperation&) const = default;

 private:
  std::array<T, all_operations.size()> values_{};
};

/// The bytes that one rank sends in each operation.
using BytesSent = PerOperation<std::int64_t>;
/// Returns the bytes sent between two readings of the same counters.
BytesSent operator-(const BytesSent& after, const BytesSent& before);
std::int64_t total(const BytesSent& bytes);

/// The traffic counters of one rank's transport.
struct Traffic {
  BytesSent bytes_sent;             ///< payload
  std::int64_t overhead_bytes = 0;  ///< sent in addition to the payload: message headers
  /// Number of collectives that a library performed. The transport cannot count their bytes.
  PerOperation<std::int64_t> library_calls;
};
Traffic operator-(const Traffic& after, const Traffic& before);

}  // namespace lockstep
