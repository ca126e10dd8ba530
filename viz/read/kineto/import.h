#pragma once

#include <string>
#include <vector>

#include "viz/read/kineto/actions.h"
#include "viz/read/kineto/alignment.h"
#include "viz/read/kineto/matching.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep::kineto {

/// The contents of a run's traces in terms of training. All vectors except `matches` and `notes`
/// are parallel.
struct Import {
  std::vector<Trace> traces;  ///< by rank
  std::vector<int> numbers;   ///< the rank of each trace
  std::vector<RankCalls> calls;
  std::vector<RankActions> actions;
  std::vector<Picoseconds> moved;  ///< how far alignment moved each trace's first event
  std::vector<Match> matches;
  Alignment alignment;
  bool ranks_stated = false;       ///< whether all traces state their ranks
  bool groups_unknown = false;     ///< whether collectives that name no group have several groups
  bool stages_inferred = false;    ///< whether stages.h inferred the stages
  std::vector<std::string> notes;  ///< for the user, one sentence each (notes.h)
};

/// Finds steps, collectives, messages and pipeline actions in the traces of a run's ranks, and
/// aligns their clocks. In the result, all times count from the run's first event, on one clock.
/// Throws UsageError if there is no trace, or if two traces are of the same rank.
Import analyse(std::vector<Trace> traces);

/// Returns whether all traces name the same host.
bool have_one_host(const std::vector<Trace>& traces);

/// Fills a timeline. Each rank gets lanes for compute (lane 0), for its other streams, for its
/// communication and for the threads of its host. As in Lockstep's own traces, lane 0 contains a
/// wait wherever the rank waits for a collective or a message. Below each collective, its
/// communication lane also shows the wait for members that had not started yet, with the last of
/// them as its peer.
void fill(const Import& import, Timeline& timeline);

}  // namespace lockstep::kineto
