#pragma once

#include <sys/types.h>

#include <csignal>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

struct ChildProcess {
  bool reads = true;             ///< this process's stdin
  int output = -1, errors = -1;  ///< descriptors of its stdout and stderr; -1: this process's
  int end_signal = SIGTERM;      ///< sent to it when this process ends; 0: none
};

/// Starts a process that runs `body`, with no signal blocked and without this process's signal
/// handlers, and exits with the code that `body` returns, unless that calls exec. Returns -1, with
/// errno set, if that fails.
pid_t start_process(const ChildProcess& child, const std::function<int()>& body);

/// Returns `words` as exec expects them. After fork, a process with threads may not allocate, so
/// call this before.
std::vector<char*> pointers_to(const std::vector<std::string>& words);

}  // namespace lockstep
