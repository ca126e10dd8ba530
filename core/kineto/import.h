#pragma once

#include <string>
#include <vector>

#include "core/kineto/actions.h"
#include "core/kineto/alignment.h"
#include "core/kineto/matching.h"
#include "core/timeline/timeline.h"

namespace lockstep::kineto {

/// What was found in the traces of a run, and how.
struct Import {
  std::vector<Trace> traces;  ///< by rank
  std::vector<int> numbers;   ///< the rank of each trace
  std::vector<RankCalls> calls;
  std::vector<RankActions> actions;
  std::vector<Match> matches;
  Alignment alignment;
  bool groups_unknown = false;     ///< whether collectives that name no group are of several groups
  std::vector<Picoseconds> moved;  ///< by trace: how far alignment moved its first event
  std::vector<std::string> notes;  ///< one sentence each
};

/// Finds steps, collectives, messages and pipeline actions in the traces of a run's ranks, and
/// aligns their clocks: afterwards, all times count from the same instant on one clock. Throws
/// UsageError if two traces are of the same rank.
Import analyse(std::vector<Trace> traces);

/// Returns whether all traces name the same host.
bool have_one_host(const std::vector<Trace>& traces);

/// Fills a timeline. Each rank gets lanes for compute (lane 0), for its other streams, for its
/// communication and for the threads of its host. On lane 0, the time in which a rank waits for a
/// collective or a message is a wait, as in Lockstep's own traces; a wait for members that had not
/// started yet also stands below the collective, with the last of them as its peer.
void fill(const Import& import, Timeline& timeline);

}  // namespace lockstep::kineto
