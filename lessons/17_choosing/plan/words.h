#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "core/time/time.h"

namespace lockstep {

/// A unit in which several figures are printed, so that the largest has one to three digits before
/// the point.
struct FigureUnit {
  const char* name = "";
  double size = 1;
};

inline FigureUnit unit_of_time(Picoseconds largest) {
  if (largest >= 1'000'000'000'000) return {"s", 1e12};
  return largest >= 1'000'000'000 ? FigureUnit{"ms", 1e9} : FigureUnit{"µs", 1e6};
}
inline FigureUnit unit_of_bytes(std::int64_t largest) {
  if (largest >= 1'000'000'000) return {"GB", 1e9};
  return largest >= 1'000'000 ? FigureUnit{"MB", 1e6} : FigureUnit{"kB", 1e3};
}

/// "52.981 s", in the unit that suits `like`.
inline std::string time_text(Picoseconds time, Picoseconds like) {
  const FigureUnit unit = unit_of_time(like);
  return fmt::format("{:.3f} {}", static_cast<double>(time) / unit.size, unit.name);
}
inline std::string time_text(Picoseconds time) {
  return time_text(time, time);
}
/// "79.7 GB".
inline std::string bytes_text(std::int64_t bytes) {
  const FigureUnit unit = unit_of_bytes(bytes);
  return fmt::format("{:.1f} {}", static_cast<double>(bytes) / unit.size, unit.name);
}
/// "70.6B": billions, millions or thousands.
inline std::string count_text(std::int64_t count) {
  const auto number = static_cast<double>(count);
  if (count >= 1'000'000'000) return fmt::format("{:.1f}B", number / 1e9);
  if (count >= 1'000'000) return fmt::format("{:.1f}M", number / 1e6);
  return count >= 10'000 ? fmt::format("{:.1f}k", number / 1e3) : fmt::format("{}", count);
}

}  // namespace lockstep
