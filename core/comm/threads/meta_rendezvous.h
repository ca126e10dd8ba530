#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/comm/meta/meta_collectives.h"

namespace lockstep {

class ThreadFabric;

/// Implements MetaCollectives for ranks that are threads. All state is under the fabric's lock, and
/// waiting for a member is part of the fabric's WaitGraph. So deadlocks, calls that differ and
/// ranks that fail end a run just as they do with messages. Only the evaluation runs outside the
/// lock.
class MetaRendezvous {
 public:
  /// The fabric owns this.
  explicit MetaRendezvous(ThreadFabric& fabric) : fabric_(fabric) {}
  ~MetaRendezvous();

  /// `rank` joins the group of `ranks`, which all of its members identify by `channel`.
  std::unique_ptr<MetaCollectives> join(int rank, const std::vector<int>& ranks, int channel,
                                        const Cluster& cluster);
  /// The rank has finished and will call nothing more. The caller holds the fabric's lock, and
  /// looks for deadlocks afterwards.
  void finished(int rank);

 private:
  struct Round;
  struct MetaGroup;
  class Member;
  class Issued;

  ThreadFabric& fabric_;
  /// Groups that some members have not joined yet.
  std::map<std::pair<int, std::vector<int>>, std::vector<std::shared_ptr<MetaGroup>>> open_;
  std::map<int, std::vector<std::weak_ptr<MetaGroup>>> of_rank_;
};

}  // namespace lockstep
