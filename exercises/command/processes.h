#pragma once

#include <string>
#include <vector>

namespace lockstep::exercises {

/// From now on, SIGINT, SIGTERM and SIGHUP no longer end this process: run() and pause() do, with
/// exit code 130.
void watch_signals();

/// Runs a program and returns its exit code. If a signal arrives, passes it on, waits until the
/// program has cleaned up, and exits with 130, as if the program itself ends so.
/// If `to_stderr`, the program's output goes to stderr.
int run(const std::vector<std::string>& words, bool to_stderr = false);

/// Becomes the program. Returns, with an exit code, only if there is none.
int become(const std::vector<std::string>& words);

/// Waits.
void pause(double seconds);

}  // namespace lockstep::exercises
