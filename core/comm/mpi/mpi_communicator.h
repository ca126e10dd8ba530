#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

namespace lockstep {

/// Returns a duplicate of MPI_COMM_WORLD that reports errors as return codes. Collective: all ranks
/// make the same calls in the same order. The caller frees it with MPI_Comm_free. `rank` is this
/// process's rank, for error messages. Throws RunError if MPI fails.
MPI_Comm duplicate_world(int rank);

}  // namespace lockstep
