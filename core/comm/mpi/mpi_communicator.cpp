#include "core/comm/mpi/mpi_communicator.h"

#include <algorithm>

#include "core/comm/mpi/mpi_check.h"
#include "core/comm/mpi/polling.h"

namespace lockstep {

namespace {

// Avoids MPI_Comm_dup, which would busy-wait inside MPI.
MPI_Comm duplicate_world(int rank, double patience_seconds) {
  MPI_Comm communicator = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Comm_idup(MPI_COMM_WORLD, &communicator, &request), "MPI_Comm_idup", rank);
  double patience = patience_seconds;
  Polling polling;
  for (int done = 0; done == 0;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test", rank);
    if (done != 0) break;
    if (patience < 0)
      throw RunError(
          fmt::format("rank {} has waited {:g} s for the other ranks to start (MPI_Comm_idup)",
                      rank, patience_seconds));
    patience -= std::min(polling.pause(), 0.1);
  }
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  return communicator;
}

}  // namespace

MpiCommunicators::MpiCommunicators(int rank, double patience_seconds)
    : messages(duplicate_world(rank, patience_seconds)),
      lookouts(duplicate_world(rank, patience_seconds)) {}

}  // namespace lockstep
