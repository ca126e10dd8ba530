#pragma once

#include <string>

#include "core/trace/recorder.h"

namespace lockstep {

/// The version of the record (core/trace/README.md), in a trace's first event. Since 2, spans name
/// their messages and waits what they wait for; before, messages were flow events of their own.
constexpr int trace_format = 2;

/// Appends one event as a line of the trace (core/trace/README.md), ending with a comma and
/// a newline.
void append_line(std::string& text, int rank, const TraceEvent& event);
/// Appends microseconds with three decimals, or six if the picoseconds require them.
void append_microseconds(std::string& text, Picoseconds time);
/// Appends the name that a span has in the trace: the span's own name, or
/// PP:{stage}{F|B|I|W}{microbatch} for a pipeline action.
void append_name(std::string& text, const Span& span);

}  // namespace lockstep
