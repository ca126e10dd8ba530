// How JsonReader reads strings.
#include <charconv>

#include "core/base/json_reader.h"
#include "core/base/printable.h"

namespace lockstep {

namespace {

/// Appends a character to a text in UTF-8.
void append(std::string& text, unsigned character) {
  const auto byte = [&](unsigned bits) { text += static_cast<char>(bits); };
  if (character < 0x80) return byte(character);
  if (character < 0x800) {
    byte(0xc0 | character >> 6);
  } else if (character < 0x10000) {
    byte(0xe0 | character >> 12);
    byte(0x80 | (character >> 6 & 0x3f));
  } else {
    byte(0xf0 | character >> 18);
    byte(0x80 | (character >> 12 & 0x3f));
    byte(0x80 | (character >> 6 & 0x3f));
  }
  byte(0x80 | (character & 0x3f));
}

}  // namespace

/// Reads the four hexadecimal digits of an escape.
unsigned JsonReader::code_unit() {
  unsigned value = 0;
  const std::string_view text = text_.substr(at_, 4);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() < 4 || error != std::errc{} || end != text.data() + 4)
    malformed("four hexadecimal digits");
  at_ += 4;
  return value;
}

/// Reads a string and returns the raw text between its quotes.
std::string_view JsonReader::string_text() {
  expect('"');
  const std::size_t begin = at_;
  for (;;) {
    if (accept('"')) return text_.substr(begin, at_ - begin - 1);
    if (accept('\\')) {
      if (accept('u')) {
        const unsigned unit = code_unit();
        if (unit >= 0xdc00 && unit < 0xe000) malformed("the first half of a pair before this one");
        if (unit < 0xd800 || unit >= 0xe000) continue;
        expect("\\u");
        if (const unsigned low = code_unit(); low < 0xdc00 || low >= 0xe000)
          malformed("the second half of a pair before this");
      } else if (at_ < text_.size() &&
                 std::string_view{"\"\\/bfnrt"}.find(text_[at_]) != std::string_view::npos) {
        ++at_;
      } else {
        malformed("an escape such as \\n");
      }
      continue;
    }
    const std::size_t length = utf8_length(text_.substr(at_, 4));
    if (length == 0 || (length == 1 && static_cast<unsigned char>(text_[at_]) < 0x20))
      malformed("a character of a string, in UTF-8");
    at_ += length;
  }
}

std::string JsonReader::string() {
  if (kind() != Kind::string) unfit(skip(), "a string");
  const std::string_view written = string_text();
  std::string text;
  if (written.find('\\') == std::string_view::npos) return text = written;
  JsonReader escapes{written};
  while (escapes.at_ < written.size()) {
    if (!escapes.accept('\\')) {
      text += written[escapes.at_++];
      continue;
    }
    constexpr std::string_view letters = "bfnrt", meanings = "\b\f\n\r\t";
    const char letter = written[escapes.at_++];
    if (letter == 'u') {
      unsigned character = escapes.code_unit();
      if (character >= 0xd800 && character < 0xe000) {
        escapes.expect("\\u");
        character = 0x10000 + ((character - 0xd800) << 10) + (escapes.code_unit() - 0xdc00);
      }
      append(text, character);
    } else {
      const std::size_t i = letters.find(letter);
      text += i == std::string_view::npos ? letter : meanings[i];
    }
  }
  return text;
}

}  // namespace lockstep
