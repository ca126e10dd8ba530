#include "core/run/launch/loopback.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace lockstep {

namespace {

/// Returns the libraries that the user preloads.
std::string own_preload() {
  const char* libraries = std::getenv("LD_PRELOAD");
  return libraries != nullptr ? libraries : "";
}

}  // namespace

bool is_one_host(const HostChoice& hosts) {
  if (hosts.any()) return false;
  for (const char* others : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE",
                             "COBALT_JOBID", "OMPI_MCA_orte_default_hostfile"})
    if (std::getenv(others) != nullptr) return false;
  return true;
}

void keep_off_the_network() {
  for (const auto& [name, value] : {std::pair{"OMPI_MCA_pml", "ob1"},
                                    {"OMPI_MCA_btl", "self,vader"},
                                    {"OMPI_MCA_oob_tcp_if_include", "127.0.0.0/8"}})
    ::setenv(name, value, /*overwrite=*/0);
}

std::vector<std::string> preload_loopback() {
#ifdef LOCKSTEP_LOOPBACK_LIBRARY
  if (::access(LOCKSTEP_LOOPBACK_LIBRARY, R_OK) == 0)
    return {"env", fmt::format("LD_PRELOAD={}:{}", LOCKSTEP_LOOPBACK_LIBRARY, own_preload())};
#endif
  return {};
}

std::vector<std::string> preload_own() {
  return {"-x", "LD_PRELOAD=" + own_preload()};
}

}  // namespace lockstep
