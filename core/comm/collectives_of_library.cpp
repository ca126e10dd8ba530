#include <fmt/format.h>

#include "core/comm/algorithms.h"
#include "core/comm/worker_stream.h"

namespace lockstep {

namespace {

/// Labels the call's span as native, numbers it, and counts the call in the rank's traffic.
void mark_native(CollectiveCall& call, std::int64_t sequence, Transport& transport) {
  call.part.span.algorithm = "native";
  call.part.span.sequence = sequence;
  transport.count_library_call(call.part.span.name);
}

/// A library that enqueues its collectives on a GPU, at once.
class NativeOnGpu final : public GroupCollectives {
 public:
  NativeOnGpu(const Members& members, std::unique_ptr<NativeCollectives> library)
      : endpoint_(members.endpoint),
        lane_(fmt::format("{} collectives: native", members.name)),
        library_(std::move(library)) {}

  bool supports_16_bit() const override { return library_->supports_16_bit(); }

  Work issue(CollectiveCall call) override {
    mark_native(call, issued_++, endpoint_.transport);
    Stream& compute = endpoint_.device.compute;
    const Event ready = compute.record();
    GpuQueue& queue = *library_->gpu_queue();
    const Picoseconds launched = compute.clock().now();
    queue.wait(ready);
    MarkPtr begun = queue.record();
    call.native(*library_);
    MarkPtr done = queue.record();
    endpoint_.transport.expect({begun, done});
    if (GpuTimeline* timeline = compute.timeline())
      timeline->span({.lane = compute.trace().add_lane(lane_),
                      .span = call.part.span,
                      .start = std::move(begun),
                      .end = done,
                      .launched = launched});
    return {compute, call.part.span, Event{compute.now(), std::move(done)}};
  }

 private:
  Endpoint endpoint_;
  std::string lane_;
  std::unique_ptr<NativeCollectives> library_;
  std::int64_t issued_ = 0;
};

/// A library whose collectives block the host: a worker calls it while the rank computes. Before
/// each call, the members meet in Lockstep's own barrier. It detects mismatched calls, sleeps while
/// members are missing, and, if a member never arrives, keeps the others from hanging inside the
/// library, which cannot be cancelled.
class NativeOnHost final : public GroupCollectives {
 public:
  NativeOnHost(const Members& members, int channel, std::unique_ptr<NativeCollectives> library)
      : endpoint_(members.endpoint),
        lane_(fmt::format("{} collectives: native", members.name)),
        library_(std::move(library)),
        stream_(members, channel) {}

  bool supports_16_bit() const override { return library_->supports_16_bit(); }

  Work issue(CollectiveCall call) override {
    mark_native(call, issued_++, endpoint_.transport);
    const Channel::Part& part = call.part;
    return stream_.queue(
        part, endpoint_.device.compute.record(), {},
        [this, span = part.span, native = std::move(call.native)](ChannelPeers& peers) {
          dissemination_barrier(peers);
          peers.end();
          const Stream& compute = endpoint_.device.compute;
          const Picoseconds start = compute.clock().now();
          native(*library_);
          const Picoseconds end = compute.clock().now();
          compute.trace().span(compute.trace().add_lane(lane_), span, start, end);
          return Event{end};
        });
  }

 private:
  Endpoint endpoint_;
  std::string lane_;
  std::unique_ptr<NativeCollectives> library_;
  std::int64_t issued_ = 0;
  WorkerStream stream_;  // declared last: its worker uses the others until it ends
};

}  // namespace

std::unique_ptr<GroupCollectives> collectives_of_library(
    const Members& members, int channel, std::unique_ptr<NativeCollectives> library) {
  if (library->gpu_queue() != nullptr)
    return std::make_unique<NativeOnGpu>(members, std::move(library));
  return std::make_unique<NativeOnHost>(members, channel, std::move(library));
}

}  // namespace lockstep
