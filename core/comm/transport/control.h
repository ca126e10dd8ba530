#pragma once

#include <string>
#include <vector>

#include "core/comm/transport/transport.h"

namespace lockstep {

/// A message of the run itself, to or from `peer`.
Route control_route(int peer);

/// Moves bytes on the control channel: every rank's `mine` reaches rank 0, in order of rank; other
/// ranks get an empty list.
std::vector<std::string> gather_to_root(Transport& transport, const std::string& mine);
/// Rank 0's text reaches every rank.
std::string broadcast_from_root(Transport& transport, std::string text);

}  // namespace lockstep
