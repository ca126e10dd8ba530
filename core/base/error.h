#pragma once

#include <stdexcept>
#include <string>

namespace lockstep {

/// The program was asked for something impossible: one line that says what was asked, what is wrong
/// and what would do. Ends the process with exit code 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A schedule that can't be followed; the message names the first action that is wrong and why.
struct ScheduleError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The run failed: a rank died or threw, ranks disagree, a deadlock. Exit code 1.
struct RunError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace lockstep
