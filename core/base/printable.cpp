#include "core/base/printable.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

namespace {

/// Whether a terminal may interpret the character as a command: the control characters of ASCII and
/// of Latin-1 (U+0080 to U+009F), which include a second way to begin an escape sequence.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character.front());
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

std::string escaped(std::string_view text, bool on_one_line) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    text.remove_prefix(character.size());
    if (character == "\n" || character == "\t")
      shown += !on_one_line ? character : character == "\n" ? "\\n" : "\\t";
    else if (length > 0 && !is_control(character))
      shown += character;
    else
      for (const char byte : character)
        shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  }
  return shown;
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Excludes overlong encodings, surrogates, and numbers above U+10FFFF.
  const bool valid = first < 0xc2    ? false
                     : first == 0xe0 ? byte(1) >= 0xa0
                     : first == 0xed ? byte(1) < 0xa0
                     : first == 0xf0 ? byte(1) >= 0x90
                     : first == 0xf4 ? byte(1) < 0x90
                                     : first < 0xf4;
  return valid ? length : 0;
}

std::string printable(std::string_view text) {
  return escaped(text, /*on_one_line=*/false);
}

std::string one_line(std::string_view text) {
  return escaped(text, /*on_one_line=*/true);
}

std::string excerpt(std::string_view text, std::size_t most) {
  if (text.size() <= most) return one_line(text);
  // Drops a character that the limit would cut in two.
  std::size_t end = most;
  while (end > 0 && most - end < 3 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return fmt::format("{}... ({} bytes)", one_line(text.substr(0, end)), text.size());
}

}  // namespace lockstep
