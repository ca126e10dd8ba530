#include "core/comm/channel_peers.h"
#include "core/comm/group_collectives.h"

namespace lockstep {

namespace {

class CollectivesAlone final : public GroupCollectives {
 public:
  CollectivesAlone(const Members& members, Channel& messages)
      : members_(members), messages_(messages) {}

  Work issue(CollectiveCall call) override {
    Stream& compute = members_.endpoint.device.compute;
    ChannelPeers nobody{
        messages_, {members_.ranks, members_.rank}, call.part, compute.record(), {}};
    call.built_in(nobody);
    return {compute, call.part.span, nobody.end()};
  }

 private:
  Members members_;
  Channel& messages_;
};

}  // namespace

std::unique_ptr<GroupCollectives> collectives_alone(const Members& members, Channel& messages) {
  return std::make_unique<CollectivesAlone>(members, messages);
}

}  // namespace lockstep
