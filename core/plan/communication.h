#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep {

/// The implementation of collectives: the algorithms of core/comm over point-to-point messages
/// (`--comm ring`), or the backend's own library.
enum class Collectives { built_in, native };

/// The kind of operation that sent bytes are attributed to; point-to-point messages count as
/// `send`.
enum class Operation : std::uint8_t {
  send,
  broadcast,
  all_reduce,
  reduce_scatter,
  all_gather,
  gather,
  all_to_all,
  barrier,
};
inline constexpr std::array all_operations{
    Operation::send,       Operation::broadcast, Operation::all_reduce, Operation::reduce_scatter,
    Operation::all_gather, Operation::gather,    Operation::all_to_all, Operation::barrier};
constexpr const char* name_of(Operation operation) {
  constexpr const char* names[] = {"send",       "broadcast", "all_reduce", "reduce_scatter",
                                   "all_gather", "gather",    "all_to_all", "barrier"};
  return names[static_cast<std::size_t>(operation)];
}
/// Returns the operation with this name. Throws std::invalid_argument if there is none.
Operation operation_named(std::string_view name);

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
