#pragma once

#include <signal.h>

#include <functional>
#include <map>
#include <string>

#include "core/run/launch/signal_watch.h"
#include "core/run/options/hosts.h"

namespace lockstep {

/// Throws UsageError if there is no mpirun.
void find_mpirun();

/// Restarts this program as `ranks` processes under mpirun, with the same arguments, and waits for
/// them. Works even as root, and even with more ranks than cores. If the run fails, prints the
/// first cause to stderr, followed by the text of `epilogue` and by each rank's last operations.
/// `epilogue` is called once all ranks have ended, with the host of every rank that has reported
/// its host. An interruption that `watch` sees ends the ranks. If mpirun or a rank on this host has
/// been stopped for `patience_seconds`, ends the run and names the stopped process. If the run
/// saves, the first interruption only asks the ranks to save and end. Throws UsageError if there is
/// no mpirun. Returns the exit code: the ranks' own code if that is 0, 1 or 2; 130 after an
/// interruption, even if the run has saved; otherwise 1. Prints at most one notice about a busy
/// rank per `patience_seconds`.
int run_under_mpirun(int ranks, double patience_seconds, const HostChoice& hosts, bool saves,
                     int argc, char** argv, SignalWatch& watch,
                     const std::function<std::string(const std::map<int, std::string>&)>& epilogue);

/// Does the same on this host, for a program that writes no traces.
int run_under_mpirun(int ranks, int argc, char** argv);

/// After an interruption, run_under_mpirun() sends its ranks this signal to ask them to end their
/// traces, and then ends the ranks.
constexpr int end_traces_signal = SIGUSR1;
/// The signal with which it asks them to end the current step, save, and end.
constexpr int save_signal = SIGUSR2;

/// The exit code of a run that an interruption has ended, whether or not it has saved.
constexpr int interrupted_code = 130;

/// Printed when an interruption arrives that lets the step end.
constexpr const char* stop_notice =
    "interrupted: the run saves and ends after this step; a second interruption ends it at once";

}  // namespace lockstep
