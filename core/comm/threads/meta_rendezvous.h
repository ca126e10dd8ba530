#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/comm/meta/meta_collectives.h"

namespace lockstep {

class ThreadFabric;

/// Implements MetaCollectives for ranks that are threads. The fabric's lock protects all state. The
/// fabric's WaitGraph includes every wait for another member. Deadlocks, mismatched calls and
/// failed ranks therefore end a run in the same way as on the CPU, where messages are sent. Only
/// the evaluation of a collective runs outside the lock.
class MetaRendezvous {
 public:
  /// The fabric owns this object.
  explicit MetaRendezvous(ThreadFabric& fabric) : fabric_(fabric) {}
  ~MetaRendezvous();

  /// Adds `rank` to the group of `ranks`, and returns its handle to the group's collectives. All
  /// members pass the same `ranks` and `channel`.
  std::unique_ptr<MetaCollectives> join(int rank, const std::vector<int>& ranks, int channel,
                                        const Cluster& cluster);
  /// Marks the rank as finished: it will call no more collectives. The caller must hold the
  /// fabric's lock, and check for deadlocks afterwards.
  void finished(int rank);

 private:
  struct Round;
  struct MetaGroup;
  class Member;
  class Issued;

  ThreadFabric& fabric_;
  /// The groups that some members have not joined yet, by channel and ranks.
  std::map<std::pair<int, std::vector<int>>, std::vector<std::shared_ptr<MetaGroup>>> open_;
  std::map<int, std::vector<std::weak_ptr<MetaGroup>>> of_rank_;
  std::vector<std::shared_ptr<MetaGroup>> sharing_;  ///< groups to which the network refers
};

}  // namespace lockstep
