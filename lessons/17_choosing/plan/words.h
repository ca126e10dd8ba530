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
  return largest >= 1'000'000'000 ? FigureUnit{"GB", 1e9} : FigureUnit{"MB", 1e6};
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

}  // namespace lockstep
