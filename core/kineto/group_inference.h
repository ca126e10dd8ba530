#pragma once

#include <vector>

#include "core/kineto/calls.h"

namespace lockstep::kineto {

/// Infers the process groups of kernels that name only their group's size, as in traces of 2023.
///
/// The members of a group end their collectives together, so the times between successive ends are
/// equal on all members, whatever their clocks show. Kernels of one stream and group size belong to
/// one group per rank. The groups of a mesh's axis have one stride: with 8 ranks and groups of 2,
/// it is 1, 2 or 4. Of the strides, the one whose members' times differ least is chosen. Nothing is
/// inferred unless other strides' members differ by more than twice as much; a stride of the same
/// size that other groups have is no alternative, because they synchronize its ranks anyway.
/// Messages between two ranks are treated alike.
///
/// Needs the traces of all ranks. Sets Call::members or, for messages, Call::peer, and
/// Call::inferred. `numbers` are the traces' ranks.
void infer_groups(std::vector<RankCalls>& ranks, const std::vector<int>& numbers,
                  const std::vector<Trace>& traces);

}  // namespace lockstep::kineto
