#pragma once

#include <string>
#include <vector>

#include "core/comm/transport/transport.h"

namespace lockstep {

/// The route of a message of the run itself, to or from `peer`.
Route control_route(int peer);

/// Gathers every rank's `mine` on rank 0, in rank order, over the control channel. The other ranks
/// get an empty list.
std::vector<std::string> gather_to_root(Transport& transport, const std::string& mine);
/// Copies rank 0's text to every rank.
std::string broadcast_from_root(Transport& transport, std::string text);

}  // namespace lockstep
