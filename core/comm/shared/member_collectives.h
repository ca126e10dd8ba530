#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "core/comm/meta/meta_steps.h"
#include "core/comm/shared/shared_network.h"

namespace lockstep {

/// Plays one member's parts in the collectives of its group on a SharedNetwork, one after another:
/// a collective begins when the member has called it and the member's previous collective has
/// ended. As in ChannelPeers, the next step begins when the last receive has ended; sends delay
/// only the end.
class MemberCollectives final : public SharedNetwork::Listener {
 public:
  /// The result of a collective.
  struct Ended {
    Picoseconds called = 0;  ///< when the member called it
    Picoseconds end = 0;
    std::vector<Passage> passages{};  ///< one for each step, if they are kept
  };
  /// A collective that this member has called.
  struct Call {
    std::shared_ptr<const std::vector<MetaStep>> steps;  ///< peers are members
    Picoseconds ready = 0;                               ///< when the member called it
    double load = 1;                                     ///< OutgoingMessage::load
    bool keeps_passages = false;
    std::function<void(Ended)> ended;  ///< called once, in the order of the calls
  };

  /// Returns one per member. A call that begins a sum in a switch throws UsageError if the cluster
  /// has no such switch, or if the members are on several nodes. `ranks` are the ranks of the
  /// group's members, and `links` is the cluster that sets the latencies of their messages. Both
  /// must outlive these objects, and so must `network`. In a folded run, only the first `kept`
  /// members play; otherwise, all do.
  static std::vector<std::unique_ptr<MemberCollectives>> of_group(SharedNetwork& network,
                                                                  const Cluster& links,
                                                                  const std::vector<int>& ranks,
                                                                  std::size_t kept, int channel);

  /// Queues a call, which begins at once if no other is in progress.
  void call(Call call);

  void left(int step, const Passage& passage) override;
  void arrived(int step, const Passage& passage) override;
  void reached(int) override;

 private:
  /// The members of a group that play, and the sums in the switch (Algorithm::in_switch) by the
  /// number of the collective: how many members have begun the sum, and when the last of them
  /// began.
  struct Group {
    struct Sum {
      std::size_t begun = 0;
      Picoseconds last = 0;
    };
    std::vector<MemberCollectives*> members;
    std::map<std::int64_t, Sum> sums;
  };
  MemberCollectives(SharedNetwork& network, const Cluster& links, const std::vector<int>& ranks,
                    std::size_t member, int channel, std::shared_ptr<Group> group)
      : network_(network),
        links_(links),
        ranks_(ranks),
        rank_(ranks[member]),
        stream_(network.open_stream(rank_, channel)),
        group_(std::move(group)) {}

  void begin();
  /// Begins a sum in the switch, which starts once all members have begun it.
  void begin_in_switch();
  void add_in_switch(Picoseconds start);
  void go_on();
  void finish_if_done();

  SharedNetwork& network_;
  const Cluster& links_;
  const std::vector<int>& ranks_;
  int rank_;
  int stream_;
  std::shared_ptr<Group> group_;
  std::deque<Call> calls_;           ///< the first is in progress
  std::int64_t number_ = 0;          ///< of the first call
  std::size_t next_ = 0;             ///< index of the first call's next step
  Picoseconds ready_ = 0;            ///< when that step may begin
  Picoseconds end_ = 0;              ///< of the first call, or of the last one that has ended
  int leaving_ = 0;                  ///< sends that have not left
  bool receiving_ = false;           ///< whether a receive has not arrived
  bool going_on_ = false;            ///< whether go_on() is running
  bool finishing_ = false;           ///< whether finish_if_done() is running
  std::vector<Passage> passages_{};  ///< of the first call, if they are kept
};

}  // namespace lockstep
