#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

namespace lockstep {

/// The communicators of a session: two duplicates of MPI_COMM_WORLD that report errors as return
/// codes. All endpoints of a session use them, one after another, and only MPI_Finalize frees them,
/// because a lookout's question may arrive after the rank that it asks has ended its endpoint. If
/// OpenMPI 4.1 receives a message on a communicator that has been freed while the same number is
/// being assigned to a new one, it counts the message as one on MPI_COMM_WORLD. The next message
/// with that sequence number is then lost, and a later MPI_Comm_create_group never returns.
struct MpiCommunicators {
  MPI_Comm messages = MPI_COMM_NULL;
  MPI_Comm lookouts = MPI_COMM_NULL;

  /// Collective over all ranks. `rank` is this process's rank, for error messages. Throws RunError
  /// if MPI fails, or if the other ranks don't arrive for `patience_seconds`.
  MpiCommunicators(int rank, double patience_seconds);
};

}  // namespace lockstep
