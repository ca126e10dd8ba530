#pragma once

#include <map>

#include "viz/read/kineto/lane_layout.h"
#include "viz/read/kineto/waits.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep::kineto {

/// A message of one rank: its id, and the rank at its other end, or -1 if that is not known.
struct KnownMessage {
  std::uint64_t id = 0;
  int peer = -1;
};
/// One rank's messages, by call.
using KnownMessages = std::map<std::size_t, KnownMessage>;

/// Adds the lanes of one rank and all their spans to a timeline. `index` is the rank's position in
/// the import. A known peer takes precedence over Call::peer.
void fill_rank(const Import& import, std::size_t index, const LatePeers& late,
               const KnownMessages& messages, Timeline& timeline);

}  // namespace lockstep::kineto
