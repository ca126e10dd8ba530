#pragma once

#include <string>
#include <string_view>

#include "viz/read/kineto/trace.h"

namespace lockstep::kineto {

/// Returns whether a document looks like a trace of PyTorch's profiler: an object with one of the
/// fields that only Kineto writes. Looks only at the beginning, of at most 64 KiB.
bool is_kineto(std::string_view document);

/// Reads a whole trace. Callers should move `document` in, because the parser appends padding to
/// it. Malformed events are skipped and counted, and fields of the wrong type count as absent.
/// Throws UsageError, naming `file`, if the document is not complete JSON or has no traceEvents.
Trace read_trace(std::string document, const std::string& file);

}  // namespace lockstep::kineto
