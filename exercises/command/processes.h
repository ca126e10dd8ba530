#pragma once

#include <string>
#include <vector>

namespace lockstep::exercises {

/// From now on, SIGINT, SIGTERM and SIGHUP no longer end this process directly: run() and pause()
/// end it, with exit code 130.
void watch_signals();

/// Runs a program and returns its exit code. If a signal arrives, passes it on, waits until the
/// program has cleaned up, and exits with 130. Also exits with 130 if the program does. If
/// `to_stderr`, the program's output goes to stderr.
int run(const std::vector<std::string>& words, bool to_stderr = false);

/// Replaces this process with the program. If that fails, prints the reason and returns an exit
/// code.
int become(const std::vector<std::string>& words);

/// Waits for this time.
void pause(double seconds);

}  // namespace lockstep::exercises
