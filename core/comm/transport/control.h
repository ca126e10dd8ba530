#pragma once

#include <string>
#include <vector>

#include "core/comm/transport/transport.h"

namespace lockstep {

/// The route of a message on the control channel, to or from `peer`.
Route control_route(int peer);

/// Gathers every rank's `mine` on rank 0, in rank order, over the control channel. Returns an empty
/// list on the other ranks.
std::vector<std::string> gather_to_root(Transport& transport, const std::string& mine);
/// Returns rank 0's `text` on every rank.
std::string broadcast_from_root(Transport& transport, std::string text);

}  // namespace lockstep
