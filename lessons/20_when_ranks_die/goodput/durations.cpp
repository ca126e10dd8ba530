#include "lessons/20_when_ranks_die/goodput/durations.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "core/base/error.h"

namespace lockstep {

double duration_of(const std::string& flag, const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit{end};
  double scale = 0;
  for (const auto& [name, seconds] :
       {std::pair{"ms", 1e-3}, {"s", 1.0}, {"min", 60.0}, {"h", 3600.0}, {"d", 86400.0}})
    if (unit == name) scale = seconds;
  if (end == text.c_str() || scale == 0 || !(number >= 0) || !(number * scale <= 1e12))
    throw UsageError(fmt::format(
        "{} {}: must be a time with a unit (ms, s, min, h, d), such as 90s or 1.5h", flag, text));
  return number * scale;
}

std::string duration_text(double seconds) {
  if (seconds < 1) return fmt::format("{:.3g} ms", 1e3 * seconds);
  if (seconds < 120) return fmt::format("{:.3g} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{:.1f} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.2f} h", seconds / 3600);
  return fmt::format("{:.1f} days", seconds / 86400);
}

}  // namespace lockstep
