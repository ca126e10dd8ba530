#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "viz/read/timeline/step_account.h"

namespace lockstep::viz {

/// A part of the mean step over the ranks, as bars, legends and tables show it.
struct MeanPart {
  enum class Kind : std::uint8_t { compute, optimizer, exposed, bubble, other, ended };
  Kind kind = Kind::compute;
  std::string name;     ///< "compute", or the axis of exposed communication, such as "tp"
  Picoseconds sum = 0;  ///< over the ranks
};
/// Returns the parts that take time, in the order of a bar: compute, optimizer, exposed
/// communication on each axis (the longest first), bubble, other, ended. Their sums add up to the
/// step's length times the number of ranks.
std::vector<MeanPart> mean_step(const StepAccount& account);

/// Returns the time in which the compute lane of a rank, or of several ranks, does not work.
Picoseconds not_computing(const StepSums& sums);
/// Returns the share of the step in which the ranks do not compute; 0 for an empty step.
double not_computing_share(const StepAccount& account);

/// Adds to `names` the axes that it lacks.
void join_axes(std::vector<std::string>& names, const std::vector<std::string>& axes);
/// Returns `sums` with its axes, named in `from`, moved to their positions in `to`. `to` contains
/// all of them; the time on its other axes is 0.
StepSums with_axes(const StepSums& sums, const std::vector<std::string>& from,
                   const std::vector<std::string>& to);

/// The number of distinct axis colours.
constexpr int axis_slot_count = 5;
/// Returns for each axis the number of its colour: tp, dp, pp, ep and cp get the same colours in
/// every step of every run, and other groups get the remaining ones. If there are more axes, the
/// last ones share colours.
std::vector<int> axis_slots(const std::vector<std::string>& axes);

/// Returns the step of the rank on which it takes longest; of several, the first.
Interval longest_step(const StepAccount& account);

/// Returns a sum over the ranks, divided by their number.
double mean_of(Picoseconds sum, const StepAccount& account);

}  // namespace lockstep::viz
