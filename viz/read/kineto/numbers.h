#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace lockstep::kineto {

/// Returns the number that the text represents; nothing if the text is not a number, or if the
/// number does not fit.
template <class Number>
std::optional<Number> number_from(std::string_view text) {
  Number number = 0;
  const char* end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || read != end) return {};
  return number;
}

/// Returns a rank, a count or an index as an int; -1 if it is negative or does not fit.
inline int index_from(std::int64_t number) {
  return number >= 0 && number <= std::numeric_limits<int>::max() ? static_cast<int>(number) : -1;
}

}  // namespace lockstep::kineto
