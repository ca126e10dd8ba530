#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/comm/meta_seat.h"

namespace lockstep {

class ThreadFabric;

/// Where ranks that are threads meet for the collectives of the meta device. All of it is under the
/// fabric's lock, and waiting for a member is part of the fabric's WaitGraph, so that deadlocks,
/// calls that differ and ranks that fail end a run just as they do with messages. Only the
/// evaluation itself runs outside of the lock.
class MetaMeetings {
 public:
  /// The fabric owns this.
  explicit MetaMeetings(ThreadFabric& fabric) : fabric_(fabric) {}
  ~MetaMeetings();

  /// `rank`'s place in a group of `ranks`, which all of them know by `channel`.
  std::unique_ptr<MetaSeat> seat(int rank, const std::vector<int>& ranks, int channel,
                                 const Cluster& cluster);
  /// The rank has finished and will call nothing more. The caller holds the fabric's lock, and then
  /// looks for deadlocks.
  void finished(int rank);

 private:
  struct Round;
  struct Meeting;
  class Seat;
  class Attendance;

  ThreadFabric& fabric_;
  /// Meetings that some members have not joined yet.
  std::map<std::pair<int, std::vector<int>>, std::vector<std::shared_ptr<Meeting>>> open_;
  std::map<int, std::vector<std::weak_ptr<Meeting>>> of_rank_;
};

}  // namespace lockstep
