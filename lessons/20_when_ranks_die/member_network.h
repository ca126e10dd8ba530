#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/group.h"
#include "core/comm/threads/thread_fabric.h"
#include "core/run/rank/rank.h"
#include "lessons/20_when_ranks_die/coordinator.h"

namespace lockstep {

/// What connects the members of a quorum, which are threads. If it fails, every wait in it ends.
class MemberNetwork {
 public:
  MemberNetwork(int ranks, const Quorum& quorum, double patience_seconds)
      : quorum_(quorum),
        training_(std::make_unique<ThreadFabric>(ranks, patience_seconds)),
        savers_(std::make_unique<ThreadFabric>(  // a slow disk is no failure
            static_cast<int>(quorum.members.size()), std::numeric_limits<double>::infinity())) {
    for (int rank = 0; rank < ranks; ++rank)
      if (std::ranges::count(quorum.members, rank) == 0) training_->finish(rank);
  }

  Coordinator::Connection connect(Rank& rank) const {
    auto own = training_->endpoint(rank.id, rank.transport->combines());
    if (rank.gpu) {
      rank.gpu->open_to_peers();
      own->use(*rank.gpu);
    }
    own->count_on(*rank.transport);
    own->computes_on(rank.compute);
    own->open_channels(quorum_.number * most_channels);  // other flows in the trace
    Transport& transport = *own;
    return {std::move(own), transport, transport.open_channels(Group::channels_taken)};
  }
  /// Returns a transport between the threads that save checkpoints; its ranks are places in the
  /// quorum.
  std::unique_ptr<Transport> connect_savers(const Rank& rank) const {
    const auto place = std::ranges::find(quorum_.members, rank.id) - quorum_.members.begin();
    return savers_->endpoint(static_cast<int>(place));
  }

  void fail(const std::string& why) const {
    training_->fail(why);
    savers_->fail(why);
  }
  /// Returns why it has failed, or "".
  std::string failure() const { return training_->failure(); }

 private:
  /// The channels that members open at most.
  static constexpr int most_channels = 4;

  Quorum quorum_;
  std::unique_ptr<ThreadFabric> training_, savers_;
};

}  // namespace lockstep
