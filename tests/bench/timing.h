#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace lockstep::bench {

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Returns the seconds that `work` takes.
template <class Work>
double seconds_of(Work&& work) {
  const double start = seconds_now();
  work();
  return seconds_now() - start;
}

/// Returns the quantile: the value below which a fraction `share` of the values lies; 0 if there
/// are no values.
inline double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const auto above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}
inline double median(const std::vector<double>& values) {
  return quantile(values, 0.5);
}

}  // namespace lockstep::bench
