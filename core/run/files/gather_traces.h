#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "core/comm/transport/transport.h"
#include "core/run/files/run_folder.h"

namespace lockstep {

/// Collects traces from hosts that do not share a file system. Every rank must call this, after its
/// trace is written. Ranks send the rank<r>.json files that are missing from rank 0's `folder`.
/// Returns, on every rank, the number of files sent. `piece` is the number of bytes per message.
/// If rank 0 cannot write a file, it calls `warn` with the reason and continues without the file.
int gather_traces(Transport& transport, const RunFolder& folder, std::size_t piece = 4 << 20,
                  const std::function<void(const std::string&)>& warn = {});

}  // namespace lockstep
