#include "core/comm/worker_stream.h"

namespace lockstep {

namespace {

class CollectivesByWorker final : public GroupCollectives {
 public:
  CollectivesByWorker(const Members& members, int channel)
      : device_(members.endpoint.device), stream_(members, channel) {}

  Work issue(CollectiveCall call) override {
    call.part.span.sequence = issued_++;
    Tensor scratch = call.allocate_scratch(device_);
    const Event ready = device_.compute.record();  // on a GPU, also follows the allocation
    return stream_.queue(
        call.part, ready, std::move(scratch),
        [built_in = std::move(call.built_in), ended = std::move(call.ended)](ChannelPeers& peers) {
          built_in(peers);
          Event end = peers.end();
          if (ended) ended(end.time);
          return end;
        });
  }

 private:
  Device device_;
  std::int64_t issued_ = 0;
  WorkerStream stream_;  // declared last: its worker uses the others until it ends
};

}  // namespace

std::unique_ptr<GroupCollectives> collectives_by_worker(const Members& members, int channel) {
  return std::make_unique<CollectivesByWorker>(members, channel);
}

}  // namespace lockstep
