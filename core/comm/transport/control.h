#pragma once

#include <string>
#include <vector>

#include "core/comm/transport/transport.h"

namespace lockstep {

/// The route of a message on the transport's control channel, to or from `peer`.
Route control_route(const Transport& transport, int peer);

/// Send and receive a text over the control channel. send_text() returns when `to` has received it.
void send_text(Transport& transport, int to, const std::string& text);
std::string receive_text(Transport& transport, int from);

/// Gathers every rank's `mine` on rank 0, in rank order, over the control channel. Returns an empty
/// list on the other ranks.
std::vector<std::string> gather_to_root(Transport& transport, const std::string& mine);
/// Gathers every rank's `mine` on every rank.
std::vector<std::string> gather_to_all(Transport& transport, const std::string& mine);
/// Returns texts[i] on rank i; `texts` is used only on rank 0.
std::string scatter_from_root(Transport& transport, const std::vector<std::string>& texts);
/// Returns rank 0's `text` on every rank.
std::string broadcast_from_root(Transport& transport, std::string text);

}  // namespace lockstep
