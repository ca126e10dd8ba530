#pragma once

#include <string_view>

#include "viz/read/timeline/timeline.h"

namespace lockstep {

// Traces before format 2, and those of other tools, do not state all facts of the record
// (core/trace/README.md). These functions infer them from names, labels and times while such a
// trace is read.

/// Infers a span's role from a name like "send", its payload from its lane, and the stage and the
/// microbatch of an action from a name like "PP:1F2". `span.category` must be set.
void infer_facts(TimelineSpan& span, std::string_view name, const Lane& lane);

/// Returns the id of the message that a wait of a rank waits for: the first on the rank's lanes
/// with the wait's labels that is under way at the wait's end or, if there is none, the last before
/// it. Returns 0 if the trace shows no such message.
std::uint64_t infer_message(const RankTimeline& rank, const TimelineSpan& wait);

}  // namespace lockstep
