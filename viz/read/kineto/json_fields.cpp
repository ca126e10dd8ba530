#include "viz/read/kineto/json_fields.h"

#include <algorithm>
#include <cmath>

#include "core/base/number.h"
#include "viz/read/kineto/numbers.h"
#include "viz/read/timeline/analysis.h"
#include "viz/read/timeline/parse.h"

namespace lockstep::kineto {

namespace json = simdjson::ondemand;

std::string_view key_of(json::field& field) {
  std::string_view key;
  return field.unescaped_key().get(key) ? std::string_view{} : key;
}

std::string_view text_of(JsonValue& value) {
  std::string_view text;
  return value.get_string().get(text) ? std::string_view{} : text;
}

std::string_view written_text(JsonValue& value) {
  json::json_type type;
  if (value.type().get(type)) return {};
  if (type == json::json_type::string) return text_of(value);
  if (type == json::json_type::number) return trimmed(value.raw_json_token());
  if (type != json::json_type::array) return {};
  json::array list;
  std::string_view text;
  return value.get_array().get(list) || list.raw_json().get(text) ? std::string_view{} : text;
}

std::optional<std::int64_t> number_of(JsonValue& value) {
  json::json_type type;
  if (value.type().get(type)) return {};
  if (type == json::json_type::string) return number_from<std::int64_t>(trimmed(text_of(value)));
  if (type != json::json_type::number) return {};
  std::int64_t whole = 0;
  if (!value.get_int64().get(whole)) return whole;
  double real = 0;
  if (!value.get_double().get(real) && std::abs(real) < 9e18)
    return static_cast<std::int64_t>(real);
  return {};
}

int index_of(JsonValue& value) {
  return index_from(number_of(value).value_or(-1));
}

std::int64_t size_of(JsonValue& value) {
  return std::clamp(number_of(value).value_or(-1), std::int64_t{-1}, most_bytes);
}

std::optional<std::int64_t> elements_in(JsonValue value, int depth) {
  json::array list;
  if (depth > 8 || value.get_array().get(list)) return {};
  std::int64_t product = 1, sum = 0;
  bool any = false, extents = false;
  for (JsonValue each : list) {
    json::json_type type;
    if (each.type().get(type)) return {};
    if (type == json::json_type::array) {
      if (const auto inner = elements_in(each, depth + 1)) sum = plus(sum, *inner), any = true;
    } else if (const auto extent = number_of(each); extent && *extent >= 0) {
      if (__builtin_mul_overflow(product, *extent, &product)) return {};
      extents = any = true;
    }
  }
  if (!any) return {};
  return extents ? product : sum;
}

}  // namespace lockstep::kineto
