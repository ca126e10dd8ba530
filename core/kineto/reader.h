#pragma once

#include <string>
#include <string_view>

#include "core/kineto/trace.h"

namespace lockstep::kineto {

/// Returns whether a document is a trace of PyTorch's profiler: a JSON object that has traceEvents
/// and one of the fields that only Kineto writes. Looks at its first `looked_at` bytes only.
bool is_kineto(std::string_view document);

/// Reads a whole trace. Reserves padding in `document`, which need not be kept. Malformed events
/// are skipped and counted; fields of the wrong type count as absent. Throws UsageError, naming
/// `file`, if the document is not JSON, is cut off, or has no traceEvents.
Trace read_trace(std::string document, const std::string& file);

}  // namespace lockstep::kineto
