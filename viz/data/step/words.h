#pragma once

#include <concepts>
#include <string>
#include <vector>

#include "viz/read/timeline/pipeline_analysis.h"
#include "viz/read/timeline/step_account.h"

namespace lockstep::viz {

// The rule for numbers that a person reads: three significant digits, in the unit in which the
// number is at least 1 (ms, µs; kB, MB, GB in powers of 1000), and one unit per sentence.

/// The unit and the decimal places of the numbers of one sentence: those of its largest number with
/// three significant digits. The sentence "1.18 ms, 0.22 ms of it late" has the scale of 1.18 ms.
class Scale {
 public:
  static Scale durations(double largest);  ///< picoseconds
  static Scale bytes(double largest);
  /// Formats a number. One that is not 0 never reads as 0: "<0.01 ms".
  std::string operator()(double number) const;
  std::string operator()(std::integral auto number) const {
    return (*this)(static_cast<double>(number));
  }

 private:
  Scale(double size, const char* unit, int places) : size_(size), unit_(unit), places_(places) {}

  double size_;  ///< of the unit
  const char* unit_;
  int places_;
};

/// Formats a duration that stands alone: "3.25 ms", "12.3 µs", "480 ns".
std::string duration_words(double picoseconds);
std::string duration_words(std::integral auto picoseconds) {
  return duration_words(static_cast<double>(picoseconds));
}
/// Formats a ratio: "2.13", "14.3", "4".
std::string ratio_words(double ratio);
/// Returns a spacing for the marks of an axis: 1, 2 or 5 times a power of ten, at least `least`.
double round_spacing(double least);
/// Formats a time on an axis with marks `spacing` apart: "12.5 ms". It has as many digits as the
/// marks need to differ.
std::string axis_words(double picoseconds, double spacing);
/// Formats a size that stands alone: "512 B", "16.4 kB", "1.05 MB", "80.0 GB".
std::string bytes_words(double bytes);
std::string bytes_words(std::integral auto bytes) {
  return bytes_words(static_cast<double>(bytes));
}
/// Formats a fraction: "34.5 %" for 0.345, "100 %" for 1.
std::string percent_words(double share);
/// Joins words into a list: "a", "a and b" or "a, b and c".
std::string list_words(const std::vector<std::string>& words);
/// Describes a span of a lane: "forward of microbatch 3 on stage 0", "send to rank 1", or its name.
/// A collective's message has a direction: "all_reduce 3 from rank 1"; if the trace does not show
/// it, "all_reduce 3 with rank 1".
std::string span_words(const Timeline& timeline, const TimelineSpan& span);

/// Breaks a text between words into lines of at most `columns` characters.
std::vector<std::string> wrapped(const std::string& text, std::size_t columns);

/// Names a step and its phase: "step 2, overlap".
std::string step_words(const Timeline& timeline, int step);

/// Says how many actions the selected one depends on, and how many depend on it.
std::string chain_words(const DataChain& chain);

/// Formats the nonzero parts of exposed communication as means over `ranks`: "transfer 2.0 µs,
/// latency 27.0 µs".
std::string exposed_words(const Exposed& sum, double ranks);

}  // namespace lockstep::viz
