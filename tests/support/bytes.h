#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <utility>

#include "core/plan/prediction.h"

namespace lockstep::testing {

/// Returns the byte counts of these operations, and zero for all other operations.
inline BytesSent bytes_of(std::initializer_list<std::pair<Operation, std::int64_t>> each) {
  BytesSent bytes;
  for (const auto& [operation, n] : each) bytes[operation] = n;
  return bytes;
}

/// Returns all byte counts of a prediction, none of which may be missing.
inline BytesSent bytes_of(const Predicted& predicted) {
  BytesSent bytes;
  for (const Operation operation : all_operations)
    bytes[operation] = *predicted.bytes_sent[operation];
  return bytes;
}

/// Formats as "send 8, all_reduce 16".
inline std::string text_of(const BytesSent& bytes) {
  std::string text;
  for (const Operation operation : all_operations)
    if (bytes[operation] != 0)
      text +=
          fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(operation), bytes[operation]);
  return text.empty() ? "nothing" : text;
}

}  // namespace lockstep::testing
