#pragma once

#include <string>
#include <string_view>

namespace lockstep::viz {

/// The parts of a rank's first line that the viewer's server needs.
struct Hello {
  int rank = -1;  ///< -1 if the line is not a hello
  std::string run, token;
};

/// Parses the first line that a connection sends (core/trace/README.md). Anyone who can
/// connect may send it.
Hello parse_hello(std::string_view line);

/// Compares two texts, in a time that does not depend on the position of a mismatch.
bool same_secret(const std::string& a, const std::string& b);

}  // namespace lockstep::viz
