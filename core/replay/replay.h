#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/comm/meta/meta_steps.h"
#include "core/operations/run_operations.h"
#include "core/replay/scenario.h"

namespace lockstep {

/// Times recorded operations on a cluster, by the rules of modelled time (core/time/README.md): an
/// operation of the compute stream starts when the one before it ends; a message when its data and
/// its lane are ready; a collective plays its algorithm's messages once all members have called it;
/// a wait ends with the operation that it waits for. On the cluster on which the run was recorded,
/// the times equal those of the run.
///
/// Keeps the interval of each message and collective, and the time after each wait; between two of
/// these, times are sums.
class Replay {
 public:
  /// `run` and `scenario` must outlive the replay. Throws UsageError if the operations can't have
  /// come from a run: a rank waits for a message that no rank sends, or members call different
  /// collectives.
  Replay(const RunOperations& run, const Scenario& scenario);
  ~Replay();

  const RunOperations& run() const { return run_; }
  const Scenario& scenario() const { return scenario_; }

  /// The last step, or Section::no_step if the run has none.
  int last_step() const;
  /// The time from the step's start to its end, on the rank on which it takes longest.
  Picoseconds step_time(int step) const;
  /// The times at which a rank began and ended its section of this index.
  Passage section(int rank, std::size_t index) const;
  /// The time at which the last rank ended its last section.
  Picoseconds end() const;

  /// An operation with its times. A message's interval is the one on the lane of the rank that runs
  /// the operation; a wait begins when the stream reaches it. Ranges (begin and end) take no time,
  /// except for the end of one with a fixed time.
  struct Timed {
    const RecordedOperation& operation;
    Picoseconds start = 0;
    Picoseconds end = 0;
    std::int64_t issued = -1;    ///< number of the message, the collective, or the operation that a
                                 ///< wait waits for
    Picoseconds departure = -1;  ///< of a receive: when the message began to leave its sender
  };
  /// Visits the operations of one section of a rank, in order.
  void visit(int rank, std::size_t section, const std::function<void(const Timed&)>& each) const;

  /// One member's messages in a collective, with their times on its lanes.
  struct Exchange {
    int rank = 0;
    Picoseconds ready = 0;                        ///< when the member called the collective
    Picoseconds send_free = 0, receive_free = 0;  ///< when its lanes were free for the collective
    Picoseconds end = 0;
    std::int64_t issued = -1;  ///< the member's number of the collective
    std::int64_t before = -1;  ///< that of the group's collective before this one, or -1
    bool in_switch = false;    ///< whether the switch adds (Algorithm::in_switch)
    /// Peers are members. Empty if links are shared and there are too many messages to keep.
    std::vector<MetaStep> steps;
    std::vector<Passage> passages;  ///< one for each step
  };
  /// Plays a collective again, if links are not shared. `issued` is its number on `rank`. Returns
  /// all members' messages.
  std::vector<Exchange> expand(int rank, std::int64_t issued) const;

 private:
  friend class PathFinder;
  struct RankState;
  struct GroupState;
  class Player;

  /// The time of the operation at `position` of a section's list on the compute stream; 0 for
  /// messages, collectives and waits.
  Picoseconds duration(int rank, std::size_t section, std::size_t position) const;
  /// The stream's time before the operation at `position` of a section's list.
  Picoseconds time_before(int rank, std::size_t section, std::size_t position) const;

  const RunOperations& run_;
  const Scenario& scenario_;
  /// The time of each operation on the compute stream, by slowness and group of a rank.
  std::map<std::pair<double, int>, std::vector<Picoseconds>> durations_;
  /// The positions of some operations in a list.
  struct Marks {
    std::vector<std::uint32_t> issued;     ///< positions of messages and collectives
    std::vector<std::uint32_t> stops;      ///< positions of waits and common starts
    std::vector<std::uint32_t> togethers;  ///< positions of common starts
  };
  std::vector<Marks> marks_;  ///< by list
  std::vector<RankState> ranks_;
  std::vector<std::unique_ptr<GroupState>> groups_;
  std::vector<int> last_to_start_;  ///< by common start: the rank whose time the others take
};

}  // namespace lockstep
