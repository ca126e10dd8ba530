#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/span.h"
#include "core/time/time.h"

namespace lockstep {

/// Converts microseconds as text ("12.345678", "-3", "1e3") to picoseconds. The result is exact for
/// up to six decimals; further decimals are rounded to nearest. Subtracts `origin` microseconds
/// first. Returns nothing if the text is not a number or the time does not fit.
std::optional<Picoseconds> parse_microseconds(std::string_view text, std::int64_t origin = 0);

/// Maps a span's `cat` and name to a Category. Names that start with "nccl" are communication. If
/// `cat` is unknown, names such as PP:1F2 are mapped by their letter, and all others to kernel.
Category category_of(std::string_view cat, std::string_view name);

/// Returns the text without surrounding spaces and line ends.
std::string_view trimmed(std::string_view text);

}  // namespace lockstep
