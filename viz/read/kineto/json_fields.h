#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep::kineto {

// Lenient access to the fields of a JSON document, which versions of PyTorch write with different
// types. A value of an unexpected type counts as absent.

using JsonValue = simdjson::ondemand::value;

/// Returns the key without escapes; "" if it is malformed.
std::string_view key_of(simdjson::ondemand::field& field);
/// Returns a string; "" if the value is not one.
std::string_view text_of(JsonValue& value);
/// Returns a string without its quotes, or a list or a number as written; "" for other values.
std::string_view written_text(JsonValue& value);
/// Returns a number, without its fraction. A string that spells a whole number counts too, because
/// newer versions write some numbers as strings.
std::optional<std::int64_t> number_of(JsonValue& value);
/// Returns a number that is not negative and fits an int; -1 for other values.
int index_of(JsonValue& value);
/// Returns a number of bytes or elements, limited so that sums cannot overflow; -1 if it is
/// negative or absent.
std::int64_t size_of(JsonValue& value);
/// Returns the number of elements of the tensors in nested lists of extents, such as
/// [[16, 192], [192]]; nothing if the value is not such a list.
std::optional<std::int64_t> elements_in(JsonValue value, int depth = 0);

/// Calls use(element) for the element of a list at this position, if there is one.
template <class Use>
void use_element(JsonValue& list, int position, Use use) {
  simdjson::ondemand::array elements;
  if (list.get_array().get(elements)) return;
  for (JsonValue each : elements)
    if (position-- == 0) {
      use(each);
      return;
    }
}

}  // namespace lockstep::kineto
