#include "core/comm/mpi/mpi_communicator.h"

#include "core/comm/mpi/mpi_check.h"
#include "core/comm/mpi/polling.h"

namespace lockstep {

// Avoids MPI_Comm_dup, which would busy-wait inside MPI.
MPI_Comm duplicate_world(int rank) {
  MPI_Comm communicator = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Comm_idup(MPI_COMM_WORLD, &communicator, &request), "MPI_Comm_idup", rank);
  Polling polling;
  for (int done = 0; done == 0;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test", rank);
    if (done == 0) polling.pause();
  }
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  return communicator;
}

}  // namespace lockstep
