#pragma once

namespace lockstep {

/// Whether this process was started by an MPI launcher, and as which rank of how many; from the
/// environment, without touching MPI.
bool under_mpi();
int mpi_rank_from_environment();
int mpi_size_from_environment();

}  // namespace lockstep
