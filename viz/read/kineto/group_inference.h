#pragma once

#include <vector>

#include "viz/read/kineto/calls.h"

namespace lockstep::kineto {

/// Infers the process groups of kernels that state only their group's size, as in traces of 2023.
///
/// The members of a group end their collectives together, so the times between successive ends are
/// equal on all members, regardless of clock offsets. On each rank, the kernels of one stream and
/// one group size are assumed to belong to one group. Along one axis of a device mesh, the members
/// of each group are a constant stride apart: with 8 ranks and groups of 2, the stride is 1, 2 or
/// 4. This function chooses the stride under which the members' times differ least. It infers
/// nothing unless the differences under every other stride are more than twice as large. A stride
/// already assigned to other groups of the same size is no alternative, because those groups
/// synchronize its ranks anyway. Messages between two ranks are treated in the
/// same way.
///
/// Needs the traces of all ranks. Sets Call::members or, for messages, Call::peer, and sets
/// Call::inferred. `ranks`, their `numbers` and their `traces` are parallel.
void infer_groups(std::vector<RankCalls>& ranks, const std::vector<int>& numbers,
                  const std::vector<Trace>& traces);

}  // namespace lockstep::kineto
