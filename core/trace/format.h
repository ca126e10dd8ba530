#pragma once

#include <string>

#include "core/trace/recorder.h"

namespace lockstep {

/// One event as a line of the trace (DESIGN §5), with its comma and newline.
void append_line(std::string& text, int rank, const TraceEvent& event);
/// Microseconds with three decimals, or six where picoseconds ask for them.
void append_microseconds(std::string& text, Picoseconds time);
/// What a span is called in the trace: its name, or PP:{stage}{F|B|I|W}{microbatch}.
void append_name(std::string& text, const Span& span);

}  // namespace lockstep
