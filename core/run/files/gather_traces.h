#pragma once

#include <cstddef>

#include "core/comm/transport/transport.h"
#include "core/run/files/run_folder.h"

namespace lockstep {

/// Collects traces from hosts that do not share a file system. Every rank must call this, after its
/// trace is written. Ranks send the rank<r>.json files that are missing from rank 0's `folder`.
/// Returns, on every rank, the number of files sent. `piece` is the number of bytes per message.
/// Throws RunError if a file cannot be read or written.
int gather_traces(Transport& transport, const RunFolder& folder, std::size_t piece = 4 << 20);

}  // namespace lockstep
