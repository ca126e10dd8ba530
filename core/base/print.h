#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace lockstep {

/// Prints to stderr. Ignores failures, because they can't be reported anywhere. (fmt::print
/// throws.)
template <class... Arguments>
void print_error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const std::string text = fmt::format(format, std::forward<Arguments>(arguments)...);
  [[maybe_unused]] const std::size_t written = std::fwrite(text.data(), 1, text.size(), stderr);
}

/// Opens /dev/null in place of stdin, stdout or stderr if they are closed. Otherwise, the next file
/// that the program opens would get that descriptor, and receive the program's output.
void open_standard_streams();

/// Returns the reason why text printed to stdout was lost, or "". Flushes stdout.
std::string lost_output();

/// Returns a line that reports that stdout could not be written. `why` is the system's error.
std::string cannot_print(const std::string& why);

}  // namespace lockstep
