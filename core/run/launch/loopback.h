#pragma once

#include <string>
#include <vector>

#include "core/run/options/hosts.h"

namespace lockstep {

/// Whether mpirun starts all ranks on this host: neither the user nor a batch system named hosts.
bool is_one_host(const HostChoice& hosts);

/// Keeps the ranks of one host from listening on any network: their messages go through shared
/// memory. A setting of the user's counts.
void keep_off_the_network();

/// The words to write before mpirun, so that mpirun itself listens on the loopback interface only.
/// None if this build lacks the library for it.
std::vector<std::string> preload_loopback();
/// The words to write after mpirun, so that its ranks preload only what the user chose.
std::vector<std::string> preload_own();

}  // namespace lockstep
