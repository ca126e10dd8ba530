#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace lockstep {

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

}  // namespace lockstep
