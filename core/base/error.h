#pragma once

#include <stdexcept>
#include <string>

namespace lockstep {

/// Thrown when the user requests something impossible. The one-line message says what was
/// requested, what is wrong, and what would work. The process exits with code 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Thrown for a schedule that cannot be executed. The message names the first invalid action and
/// the reason.
struct ScheduleError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Thrown when the run fails: a rank died or threw, ranks disagree, or a deadlock occurred. The
/// process exits with code 1.
struct RunError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace lockstep
