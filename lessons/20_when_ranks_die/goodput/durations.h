#pragma once

#include <string>

namespace lockstep {

/// Parses a duration such as "90s", "1.5min", "3h" or "54d" into seconds. Throws UsageError, which
/// names the flag, unless it is a number from 0 to 30,000 years.
double duration_of(const std::string& flag, const std::string& text);

/// Writes seconds with a unit: "90 s", "19.3 min", "3.09 h", "54.0 days".
std::string duration_text(double seconds);

}  // namespace lockstep
