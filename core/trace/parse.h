#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/time/time.h"
#include "core/trace/span.h"

namespace lockstep {

/// Microseconds as they are written ("12.345678", "-3", "1e3") in picoseconds: exact up to six
/// decimals, beyond that rounded to the nearest. `origin` microseconds are taken off first. Nothing
/// where the text is no number or the time does not fit.
std::optional<Picoseconds> parse_microseconds(std::string_view text, std::int64_t origin = 0);

/// What a span's `cat` means to us; kernel for categories of others (communication, where they
/// speak of NCCL).
Category category_of(std::string_view cat, std::string_view name);

/// Without spaces and line ends around it.
std::string_view trimmed(std::string_view text);

}  // namespace lockstep
