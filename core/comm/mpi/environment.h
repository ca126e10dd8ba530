#pragma once

namespace lockstep {

/// Whether this process was started as a rank by a launcher (mpirun, or srun with PMIx), and as
/// which rank of how many; from the environment, without touching MPI. A process that merely runs
/// within a Slurm allocation is no rank.
bool under_mpi();
int mpi_rank_from_environment();
int mpi_size_from_environment();
/// How many of the ranks are on this host; all of them, where the launcher does not say.
int mpi_local_size_from_environment();
/// Which of the ranks on this host this is.
int mpi_local_rank_from_environment();
/// Whether this is the rank that speaks for its host when all have the same to say.
bool mpi_first_on_host();
/// Whether the launcher is OpenMPI's mpirun: it ends all ranks when one ends badly; srun does not.
bool under_mpirun();

}  // namespace lockstep
