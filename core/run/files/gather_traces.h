#pragma once

#include <cstddef>

#include "core/comm/transport/transport.h"
#include "core/run/files/run_folder.h"

namespace lockstep {

/// Where hosts don't share a file system, each rank's trace lies on its own host. To be called by
/// every rank at once when its trace has been written: what rank 0 does not find in its `folder` is
/// sent to it, so that all of rank<r>.json are there. Returns how many were sent, on every rank.
/// `piece`: how many bytes of a file are sent at a time. Throws RunError for a file that can't be
/// read or written.
int gather_traces(Transport& transport, const RunFolder& folder, std::size_t piece = 4 << 20);

}  // namespace lockstep
