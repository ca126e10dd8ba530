#include <doctest/doctest.h>

#include <string>

#include "core/base/printable.h"

using namespace lockstep;

TEST_CASE("text that a terminal would obey is escaped, and all other text stays") {
  for (const std::string plain : {"", "a b", "\\x1b", "µs → Größe", "\U0001F680", "two\nlines\t"}) {
    CAPTURE(plain);
    CHECK(printable(plain) == plain);
  }
  CHECK(printable("\x1b[2J\x1b]0;title\a") == "\\x1b[2J\\x1b]0;title\\x07");
  CHECK(printable("a\rb\x7f\b") == "a\\x0db\\x7f\\x08");
  CHECK(printable(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(printable("\xc2\x9b"
                  "2J") == "\\xc2\\x9b2J");  // U+009B begins an escape sequence, too
  CHECK(printable("\x9b"
                  "2J") == "\\x9b2J");  // and so may this byte, which is not UTF-8
}

TEST_CASE("bytes that are not UTF-8 are escaped") {
  for (const std::string wrong :
       {"\xff", "\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
        "\xf8\x88\x80\x80\x80", "\xe2\x86"}) {
    const std::string shown = printable(wrong);
    CAPTURE(shown);
    CHECK(shown.size() == 4 * wrong.size());
    CHECK(utf8_length(wrong) == 0);
  }
  CHECK(utf8_length("\xf4\x8f\xbf\xbf") == 4);
  CHECK(utf8_length("\xe2\x86\x92 and more") == 3);
}

TEST_CASE("an excerpt is one line of bounded length, and says how long the text is") {
  CHECK(excerpt("0F0\n\t\x1b[0m") == "0F0\\n\\t\\x1b[0m");
  CHECK(excerpt(std::string(80, 'x')) == std::string(80, 'x'));
  CHECK(excerpt(std::string(1'000'000, 'x')) == std::string(80, 'x') + "... (1000000 bytes)");
  CHECK(excerpt(std::string(1'000'000, '\x1b')).size() < 400);
  CHECK(excerpt("ab→cd", 4) == "ab... (7 bytes)");  // cuts no character
}
