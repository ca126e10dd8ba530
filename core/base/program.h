#pragma once

#include <functional>
#include <string>

namespace lockstep {

/// Runs `body`, the rest of a program's main(), and returns the program's exit code: `body`'s, 2 if
/// it throws UsageError, or 1 if it throws anything else or if text printed to stdout was lost.
/// Reports an error on stderr, after `prefix`.
int run_program(const std::function<int()>& body, const std::string& prefix = "");

}  // namespace lockstep
