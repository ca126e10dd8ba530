#pragma once

#include <string>
#include <vector>

#include "core/run/options/hosts.h"

namespace lockstep {

/// Returns whether mpirun starts all ranks on this host, because neither the user nor a batch
/// system named hosts.
bool is_one_host(const HostChoice& hosts);

/// Keeps the ranks on one host from listening on any network; their messages go through shared
/// memory. Does not change settings that the user has made.
void keep_off_the_network();

/// Returns the words to put before `mpirun` on the command line, so that mpirun itself listens on
/// the loopback interface only. Returns none if this build lacks the library for it.
std::vector<std::string> preload_loopback();
/// Returns the words to put after `mpirun`, so that its ranks preload only the user's own
/// libraries.
std::vector<std::string> preload_own();

}  // namespace lockstep
