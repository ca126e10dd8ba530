#include "core/plan/communication.h"

#include <stdexcept>
#include <string>

namespace lockstep {

Operation operation_named(std::string_view name) {
  for (const Operation operation : all_operations)
    if (name == name_of(operation)) return operation;
  throw std::invalid_argument("no operation is called " + std::string{name});
}

BytesSent operator-(const BytesSent& after, const BytesSent& before) {
  BytesSent difference;
  for (const Operation operation : all_operations)
    difference[operation] = after[operation] - before[operation];
  return difference;
}

Traffic operator-(const Traffic& after, const Traffic& before) {
  return {after.bytes_sent - before.bytes_sent, after.overhead_bytes - before.overhead_bytes,
          after.library_calls - before.library_calls};
}

std::int64_t total(const BytesSent& bytes) {
  std::int64_t sum = 0;
  for (const Operation operation : all_operations) sum += bytes[operation];
  return sum;
}

}  // namespace lockstep
