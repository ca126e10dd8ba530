#include "core/comm/mpi/environment.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <vector>

namespace lockstep {

namespace {

bool is_set(const char* name) {
  return std::getenv(name) != nullptr;
}

/// Returns the value of the first of these variables that is set, as a number.
int number(std::initializer_list<const char*> names, int otherwise) {
  for (const char* name : names)
    if (const char* value = std::getenv(name)) return std::atoi(value);
  return otherwise;
}

// Slurm also sets its step variables in a batch script, which is a single process and not a rank.
// Slurm sets PMIx's variables only for ranks.
bool in_slurm_step() {
  return is_set("PMIX_RANK") && is_set("SLURM_PROCID") &&
         (is_set("SLURM_STEP_NUM_TASKS") || is_set("SLURM_NTASKS"));
}

}  // namespace

void forget_ended_launcher() {
  const char* folder = std::getenv("PMIX_SERVER_TMPDIR");
  const bool ended = folder != nullptr && ::access(folder, F_OK) != 0 && errno == ENOENT;
  if (!ended && (is_set("PMIX_RANK") || !is_set("OMPI_COMM_WORLD_SIZE"))) return;
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    for (const char* prefix : {"OMPI_COMM_WORLD_", "PMIX_", "OMPI_MCA_ess", "OMPI_MCA_orte_"})
      if (text.starts_with(prefix)) names.push_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

bool under_mpirun() {
  return is_set("OMPI_COMM_WORLD_SIZE");
}
bool under_mpi() {
  return under_mpirun() || in_slurm_step();
}
int mpi_rank_from_environment() {
  if (!under_mpi()) return 0;
  return number({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"}, 0);
}
int mpi_size_from_environment() {
  if (!under_mpi()) return 1;
  return number({"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, 1);
}
int mpi_local_size_from_environment() {
  if (!under_mpi()) return 1;
  // Slurm's value looks like "8(x2)", for 8 ranks on each of 2 hosts.
  return number({"OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE"},
                mpi_size_from_environment());
}
int mpi_local_rank_from_environment() {
  return number({"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}, 0);
}
bool mpi_first_on_host() {
  return mpi_local_rank_from_environment() == 0;
}

}  // namespace lockstep
