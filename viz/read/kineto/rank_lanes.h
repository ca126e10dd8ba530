#pragma once

#include <map>
#include <vector>

#include "viz/read/kineto/lane_layout.h"
#include "viz/read/kineto/waits.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep::kineto {

/// The ranks at the other ends of one rank's messages, by call.
using MessagePeers = std::map<std::size_t, int>;

/// Adds the lanes of one rank and all their spans to a timeline. `index` is the rank's position in
/// the import. `peers` takes precedence over Call::peer. Returns the lane of each call.
std::vector<int> fill_rank(const Import& import, std::size_t index, const LatePeers& late,
                           const MessagePeers& peers, Timeline& timeline);

}  // namespace lockstep::kineto
