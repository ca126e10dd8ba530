#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep {

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

}  // namespace lockstep
