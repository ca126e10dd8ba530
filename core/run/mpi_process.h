#pragma once

#include <functional>

#include "core/run/rank.h"

namespace lockstep {

struct ActiveRun;
class SignalWatch;

/// Runs one rank as this process, which mpirun or srun has started. Rank 0 concludes the run. The
/// ranks agree on GPUs, on the clock, and on the run's folder. Returns the exit code, the same on
/// every rank. If this rank fails, reports the cause, and ends the process and with it the run.
int run_mpi_process(ActiveRun& run, const std::function<void(Rank&)>& body, SignalWatch& watch);

}  // namespace lockstep
