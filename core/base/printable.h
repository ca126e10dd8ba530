#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

// Text from a file, a connection or an exception may contain escape sequences, which a terminal
// obeys, and may be very long. Messages quote such text through these functions.

/// Returns the number of bytes of the UTF-8 character that begins `text`; 0 if the bytes are not
/// valid UTF-8, or if `text` is empty.
std::size_t utf8_length(std::string_view text);

/// Returns the text with control characters, and bytes that are not UTF-8, as escapes such as \x1b.
/// Newlines and tabs stay.
std::string printable(std::string_view text);

/// Returns the text in one line: printable, newlines and tabs as \n and \t.
std::string one_line(std::string_view text);

/// Returns the text for quotation within a line: printable, newlines and tabs as \n and \t. If the
/// text has more than `most` bytes, returns its beginning, followed by "... (1000000 bytes)".
std::string excerpt(std::string_view text, std::size_t most = 80);

}  // namespace lockstep
