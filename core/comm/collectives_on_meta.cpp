#include <fmt/format.h>

#include <deque>

#include "core/comm/group_collectives.h"

namespace lockstep {

namespace {

class CollectivesOnMeta final : public GroupCollectives {
 public:
  CollectivesOnMeta(const Members& members, int channel, std::unique_ptr<MetaCollectives> meta)
      : members_(members),
        channel_(members.endpoint, channel, fmt::format("{} collectives: send", members.name),
                 fmt::format("{} collectives: receive", members.name)),
        meta_(std::move(meta)) {}

  Work issue(CollectiveCall call) override;

 private:
  class InFlight;

  Members members_;
  Channel channel_;  ///< names the lanes and records the messages; sends nothing
  std::unique_ptr<MetaCollectives> meta_;
  std::int64_t issued_ = 0;
  std::deque<InFlight*> unsettled_{};  ///< in order of issue
};

/// A collective in flight, and its scratch buffer. settle() counts its bytes and records its
/// messages in the trace, on the rank's own thread. A lane's events must stay in order, so it first
/// settles all earlier collectives.
class CollectivesOnMeta::InFlight final : public Task {
 public:
  InFlight(CollectivesOnMeta& owner, Channel::Part part, MetaCall call, Tensor scratch)
      : owner_(owner),
        part_(std::move(part)),
        pending_(owner.meta_->issue(std::move(call))),
        scratch_(std::move(scratch)) {
    owner_.unsettled_.push_back(this);
  }
  ~InFlight() override {
    if (pending_ && pending_->done()) settle_up_to_here();
    std::erase(owner_.unsettled_, this);
  }
  Event finish() override {
    if (pending_) pending_->wait();
    settle_up_to_here();
    return {end_};
  }

 private:
  void settle_up_to_here() {
    while (pending_) {
      owner_.unsettled_.front()->settle();
      owner_.unsettled_.pop_front();
    }
  }
  void settle() {
    const MetaOutcome& outcome = pending_->wait();
    end_ = outcome.end;
    const Members& members = owner_.members_;
    if (outcome.bytes_sent)
      members.endpoint.transport.count_sent(part_.span.name, *outcome.bytes_sent);
    for (std::size_t i = 0; i < outcome.passages.size(); ++i) {
      const auto [direction, member, bytes] = outcome.steps[i];
      const int peer = members.ranks[static_cast<std::size_t>(member)];
      if (direction == Direction::send)
        owner_.channel_.record_sent(peer, bytes, outcome.passages[i], part_);
      else
        owner_.channel_.record_received(peer, bytes, outcome.passages[i], part_);
    }
    pending_.reset();
  }

  CollectivesOnMeta& owner_;
  Channel::Part part_;
  std::unique_ptr<MetaPending> pending_;  ///< null once settled
  Picoseconds end_ = 0;
  Tensor scratch_;
};

Work CollectivesOnMeta::issue(CollectiveCall call) {
  call.part.span.sequence = issued_++;
  Stream& compute = members_.endpoint.device.compute;
  // With --comm native, a dry run stands in for a library, which allocates its own scratch.
  Tensor scratch;
  if (members_.endpoint.collectives == Collectives::built_in)
    scratch = call.allocate_scratch(members_.endpoint.device);
  MetaCall mine{.algorithm = std::move(call.built_in),
                .route = channel_.route(/*peer=*/-1, call.part),
                .ready = compute.record().time,
                .traced = compute.trace().on(),
                .ended = std::move(call.ended)};
  return {compute, call.part.span,
          std::make_unique<InFlight>(*this, call.part, std::move(mine), std::move(scratch))};
}

}  // namespace

std::unique_ptr<GroupCollectives> collectives_on_meta(const Members& members, int channel,
                                                      std::unique_ptr<MetaCollectives> meta) {
  return std::make_unique<CollectivesOnMeta>(members, channel, std::move(meta));
}

}  // namespace lockstep
