#include "viz/read/timeline/parse.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#include "core/base/number.h"

namespace lockstep {
namespace {

constexpr std::int64_t picoseconds_per_microsecond = 1'000'000;

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

std::optional<Category> own_category(std::string_view cat) {
  for (int i = 0; i < category_count; ++i) {
    if (cat == name_of(static_cast<Category>(i))) return static_cast<Category>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<Picoseconds> parse_microseconds(std::string_view text, std::int64_t origin) {
  text = trimmed(text);
  const bool negative = !text.empty() && text.front() == '-';
  if (negative) text.remove_prefix(1);
  std::int64_t whole = 0;
  std::int64_t fraction = 0;  // in picoseconds
  std::size_t i = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    if (whole > std::numeric_limits<std::int64_t>::max() / 10 - 10) return std::nullopt;
    whole = whole * 10 + (text[i] - '0');
  }
  if (i == 0) return std::nullopt;
  if (i < text.size() && text[i] == '.') {
    ++i;
    std::int64_t unit = picoseconds_per_microsecond / 10;
    for (bool rounded = false; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
      if (unit > 0) {
        fraction += (text[i] - '0') * unit;
      } else if (!rounded) {
        fraction += text[i] >= '5' ? 1 : 0;
        rounded = true;
      }
      unit /= 10;
    }
  }
  if (i < text.size()) {  // an exponent, which is rare, so the value may lose precision
    const auto real = number_from<double>(text);
    if (!real || !(*real < 9e18)) return std::nullopt;
    whole = static_cast<std::int64_t>(*real);
    fraction = std::llround((*real - static_cast<double>(whole)) * picoseconds_per_microsecond);
  }
  if (negative) {
    whole = -whole;
    fraction = -fraction;
  }
  if (__builtin_sub_overflow(whole, origin, &whole)) return std::nullopt;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 1'000'001;
  if (whole > most || whole < -most) return std::nullopt;
  return whole * picoseconds_per_microsecond + fraction;
}

Category category_of(std::string_view cat, std::string_view name) {
  if (name.starts_with("nccl")) return Category::communication;
  if (const auto own = own_category(cat)) return *own;
  if (name.starts_with("PP:")) {
    switch (const auto at = name.find_first_of("FBIW", 3);
            at == std::string_view::npos ? ' ' : name[at]) {
      case 'F':
        return Category::forward;
      case 'B':
        return Category::backward;
      case 'I':
        return Category::backward_input;
      case 'W':
        return Category::backward_weight;
      default:
        break;
    }
  }
  return Category::kernel;
}

}  // namespace lockstep
