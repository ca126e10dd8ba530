#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/model/philox.h"

namespace lockstep {

/// A point in time or a duration, in whole microseconds. In picoseconds, the unit of modelled time,
/// an int64 spans only 106 days; here a job on 8 ranks lives through 20,000 failures.
using Microseconds = std::int64_t;
constexpr Microseconds never = std::numeric_limits<Microseconds>::max() / 4;

inline Microseconds microseconds(double seconds) {
  return static_cast<Microseconds>(seconds * 1e6 + 0.5);
}
inline double seconds_of(Microseconds time) {
  return static_cast<double>(time) * 1e-6;
}

enum class Law : std::uint8_t { exponential, weibull, uniform };

/// The distribution of the time between two failures of a job, in seconds. If each of N devices
/// fails independently, with mean time m between failures, the job's mean is m/N.
struct FailureLaw {
  Law law = Law::exponential;
  double mean = 0;           ///< exponential and Weibull
  double shape = 1;          ///< Weibull: below 1, failures come in bursts; 1 is exponential
  double low = 0, high = 0;  ///< uniform

  double mean_seconds() const { return law == Law::uniform ? (low + high) / 2 : mean; }
  /// Returns the interval whose probability of being exceeded is `u`, in (0, 1].
  double interval(double u) const;
};

struct Failure {
  Microseconds time = never;
  int rank = 0;
  bool operator==(const Failure&) const = default;
};

/// The failures of one run, in order of time. Each run has its own random numbers: the same law,
/// seed and run give the same failures, whatever the job does about them.
class Failures {
 public:
  Failures(const FailureLaw& law, int ranks, std::uint64_t seed, std::uint32_t run);
  /// Failures at given times, and none afterwards.
  explicit Failures(std::vector<Failure> given);

  const Failure& next() const { return next_; }
  /// Removes the next failure and returns it.
  Failure take();

 private:
  void draw();

  FailureLaw law_;
  int ranks_ = 1;
  RandomStream random_;
  std::vector<Failure> given_;
  std::uint64_t drawn_ = 0;
  bool draws_ = true;
  Failure next_{.time = 0, .rank = 0};
};

}  // namespace lockstep
