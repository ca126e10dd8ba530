#pragma once

namespace lockstep {

// These functions read only environment variables, and do not call MPI.

/// Call this first. Removes the variables of an mpirun or srun that has ended, which a shell may
/// have kept: this process is not one of its ranks. A launcher that still runs has a folder for its
/// ranks (PMIX_SERVER_TMPDIR).
void forget_ended_launcher();

/// Whether a launcher (mpirun, or srun with PMIx) started this process as a rank. A process that
/// merely runs inside a Slurm allocation is not a rank.
bool under_mpi();
int mpi_rank_from_environment();
int mpi_size_from_environment();
/// The number of ranks on this host, or the total number of ranks if the launcher does not provide
/// it.
int mpi_local_size_from_environment();
/// This rank's index among the ranks on this host.
int mpi_local_rank_from_environment();
/// Whether this is the rank that prints the output common to all ranks on its host.
bool mpi_first_on_host();
/// Whether the launcher is OpenMPI's mpirun. Unlike srun, mpirun ends all ranks when one fails.
bool under_mpirun();

}  // namespace lockstep
