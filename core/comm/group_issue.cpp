#include <fmt/format.h>

#include <algorithm>

#include "core/comm/group.h"

namespace lockstep {

/// A collective in flight, and its scratch buffer. The scratch buffer is allocated and released on
/// the rank's own thread, in program order.
class Group::CollectiveTask final : public Task {
 public:
  CollectiveTask(Stream& compute, Worker& worker, std::shared_ptr<Worker::Job> job, Tensor scratch)
      : compute_(compute), worker_(worker), job_(std::move(job)), scratch_(std::move(scratch)) {}
  ~CollectiveTask() override { worker_.drop(*job_); }
  Event finish() override {
    Event end = worker_.wait(*job_);
    if (scratch_) compute_.follow(end);  // `end` must pass before the scratch is released
    return end;
  }

 private:
  Stream& compute_;
  Worker& worker_;
  std::shared_ptr<Worker::Job> job_;
  Tensor scratch_;
};

/// A collective on the meta device. settle() counts its bytes and records its messages in the
/// trace, on the rank's own thread. A lane's events must stay in order, so it first settles all
/// earlier collectives.
class Group::MetaTask final : public Task {
 public:
  MetaTask(Group& group, Channel::Part part, MetaCall call, Tensor scratch)
      : group_(group),
        part_(std::move(part)),
        pending_(group.meta_->issue(std::move(call))),
        scratch_(std::move(scratch)) {
    group_.unsettled_.push_back(this);
  }
  ~MetaTask() override {
    if (pending_ && pending_->done()) settle_up_to_here();
    std::erase(group_.unsettled_, this);
  }
  Event finish() override {
    if (pending_) pending_->wait();
    settle_up_to_here();
    return {end_};
  }

 private:
  void settle_up_to_here() {
    while (pending_) {
      group_.unsettled_.front()->settle();
      group_.unsettled_.pop_front();
    }
  }
  void settle() {
    const MetaOutcome& outcome = pending_->wait();
    end_ = outcome.end;
    if (outcome.bytes_sent)
      group_.endpoint_.transport.count_sent(part_.span.name, *outcome.bytes_sent);
    Channel& channel = *group_.collective_channel_;
    for (std::size_t i = 0; i < outcome.passages.size(); ++i) {
      const auto [direction, peer, bytes] = outcome.steps[i];
      if (direction == Direction::send)
        channel.record_sent(group_.world_rank(peer), bytes, outcome.passages[i], part_);
      else
        channel.record_received(group_.world_rank(peer), bytes, outcome.passages[i], part_);
    }
    pending_.reset();
  }

  Group& group_;
  Channel::Part part_;
  std::unique_ptr<MetaPending> pending_;  ///< null once settled
  Picoseconds end_ = 0;
  Tensor scratch_;
};

Work Group::issue(const Call& call, std::function<void(Peers&)> ours,
                  std::function<void(NativeCollectives&)> theirs) {
  Stream& compute = endpoint_.device.compute;
  Tensor scratch;
  if (call.scratch > 0 && size() > 1 && !native_)
    scratch =
        Tensor{endpoint_.device.memory, {call.scratch}, MemoryCategory::communication, call.dtype};
  const Event ready =
      compute.record();  // on a GPU, this event also follows the scratch's allocation
  Channel::Part part = this->part(call.name, call.where);
  part.whole = call.whole;
  part.root = call.root;
  part.span.algorithm = native_ ? "native" : call.algorithm;
  if (size() == 1) {
    ChannelPeers alone{messages_, {ranks_, rank_}, part, ready, {}};
    ours(alone);
    return {compute, part.span, alone.end()};
  }

  part.span.sequence = issued_++;
  if (native_) endpoint_.transport.count_library_call(call.name);
  if (native_ && native_->gpu_queue() != nullptr) return enqueue_native(part.span, ready, theirs);
  if (meta_) {
    MetaCall mine{.algorithm = std::move(ours),
                  .route = collective_channel_->route(/*peer=*/-1, part),
                  .ready = ready.time,
                  .traced = compute.trace().on()};
    return {compute, part.span,
            std::make_unique<MetaTask>(*this, part, std::move(mine), std::move(scratch))};
  }
  auto job = worker_->queue(
      [this, part, ready, ours = std::move(ours), theirs = std::move(theirs),
       view = scratch.view()] {
        ChannelPeers peers{*collective_channel_, {ranks_, rank_}, part, ready, view};
        if (native_) return run_native(peers, part.span, *native_, theirs);
        ours(peers);
        return peers.end();
      },
      {.operation = part.span.name, .where = call.where, .group = kept_name_});
  return {compute, part.span,
          std::make_unique<CollectiveTask>(compute, *worker_, std::move(job), std::move(scratch))};
}

Work Group::enqueue_native(const Span& span, const Event& ready,
                           const std::function<void(NativeCollectives&)>& work) {
  Stream& compute = endpoint_.device.compute;
  GpuQueue& queue = *native_->gpu_queue();
  const Picoseconds launched = compute.clock().now();
  queue.wait(ready);
  MarkPtr begun = queue.record();
  work(*native_);
  MarkPtr done = queue.record();
  endpoint_.transport.expect(done);
  if (GpuTimeline* timeline = compute.timeline())
    timeline->span({.lane = compute.trace().add_lane(name_ + " collectives: native"),
                    .span = span,
                    .start = std::move(begun),
                    .end = done,
                    .launched = launched});
  return {compute, span, Event{compute.now(), std::move(done)}};
}

// Runs Lockstep's own barrier before the backend's call. The barrier detects mismatched calls,
// sleeps while members are missing, and, if a member never arrives, keeps the others from hanging
// inside a library call, which cannot be cancelled.
Event Group::run_native(ChannelPeers& peers, const Span& span, NativeCollectives& backend,
                        const std::function<void(NativeCollectives&)>& work) {
  dissemination_barrier(peers);
  const Stream& compute = endpoint_.device.compute;
  const Picoseconds start = compute.clock().now();
  work(backend);
  const Picoseconds end = compute.clock().now();
  compute.trace().span(compute.trace().add_lane(name_ + " collectives: native"), span, start, end);
  return {end};
}

}  // namespace lockstep
