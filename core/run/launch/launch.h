#pragma once

#include <signal.h>

#include <functional>
#include <map>
#include <string>

#include "core/run/launch/signal_watch.h"
#include "core/run/options/hosts.h"

namespace lockstep {

/// Throws UsageError where there is no mpirun.
void find_mpirun();

/// Starts this program again as `ranks` processes under mpirun, with the same arguments, and waits
/// for them. Works as root and with more ranks than cores. A run that failed is told on stderr with
/// its first cause, what `epilogue` adds to that (called when all are gone), and what each
/// rank was doing. An interruption that `watch` sees ends the ranks. Throws UsageError where there
/// is no mpirun. Returns the exit code: the ranks' own where that is 0, 1 or 2, 130 after an
/// interruption, otherwise 1. `epilogue` takes the host of every rank that has said where it is.
/// Passes on at most one notice of a busy rank per `patience_seconds`.
int run_under_mpirun(int ranks, double patience_seconds, const HostChoice& hosts, int argc,
                     char** argv, SignalWatch& watch,
                     const std::function<std::string(const std::map<int, std::string>&)>& epilogue);

/// The same for a program that keeps no traces, on this host.
int run_under_mpirun(int ranks, int argc, char** argv);

/// What run_under_mpirun() sends its ranks before an interruption ends them: end your traces.
constexpr int end_traces_signal = SIGUSR1;

}  // namespace lockstep
