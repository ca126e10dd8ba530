#pragma once

#include <memory>

#include "core/run/life/life.h"

namespace lockstep {

/// Gathers the places of all ranks, which are processes, and sends them to every rank.
GpuPlan plan_processes(Transport& transport, const Options& options);

/// One rank, which is this process; mpirun or srun has started it. Initializes MPI.
std::unique_ptr<Launcher> mpi_launcher(const Options& options);

}  // namespace lockstep
