#pragma once

#include <span>
#include <string>

#include "exercises/frame/report.h"
#include "exercises/supervise/output.h"

namespace lockstep::exercises {

/// Why the supervisor has ended a check.
enum class Ended { by_itself, too_late, too_much_output, too_many_processes };

/// Limits of a check.
constexpr std::int64_t most_output = 64 << 20;  ///< bytes
constexpr std::size_t most_processes = 200;

struct Verdict {
  int code;  ///< as in report.h
  std::string text;
};

/// Judges a check whose processes have all ended. `keys` are the keys with which the reports were
/// created, `seconds` is the limit, and `source` is the answer's file.
Verdict verdict_of_reports(std::span<const Report> reports, std::span<const std::uint64_t> keys,
                           Ended why, const Output& output, int seconds, std::uint64_t seed,
                           const std::string& source);

}  // namespace lockstep::exercises
