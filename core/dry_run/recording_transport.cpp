#include "core/dry_run/recording_transport.h"

#include <algorithm>
#include <stdexcept>

#include "core/comm/meta/meta_steps.h"
#include "core/comm/shared/shared_time.h"

namespace lockstep {

namespace {

/// A message that is done.
class Done final : public Pending {
 public:
  void wait() override {}
  Picoseconds departure() const override { return 0; }
  std::int64_t done_nanoseconds() const override { return 0; }
};

/// Messages without times.
class NoTime final : public SharedTime {
 public:
  std::shared_ptr<Message> send(const Route&, const OutgoingMessage&, Known) override {
    return std::make_shared<Over>();
  }
  std::shared_ptr<Message> receive(const Route&, Known) override {
    return std::make_shared<Over>();
  }

 private:
  struct Over final : Message {
    Picoseconds wait() override { return 0; }
  };
};

/// A collective that is done; this member's messages have been counted.
class Counted final : public MetaPending {
 public:
  explicit Counted(MetaOutcome outcome) : outcome_(std::move(outcome)) {}
  const MetaOutcome& wait() override { return outcome_; }
  bool done() const override { return true; }

 private:
  MetaOutcome outcome_;
};

/// One member's collectives: runs the algorithm for this member alone and counts its sends.
class OneMember final : public MetaCollectives {
 public:
  OneMember(RecordingTransport& transport, std::vector<int> ranks)
      : transport_(transport),
        ranks_(std::move(ranks)),
        member_(static_cast<int>(std::ranges::find(ranks_, transport.rank()) - ranks_.begin())) {}

  std::unique_ptr<MetaPending> issue(MetaCall call) override {
    steps_.clear();
    StepRecorder recorder{member_, static_cast<int>(ranks_.size()), steps_};
    call.algorithm(recorder);
    MetaOutcome outcome;
    for (const MetaStep& step : steps_) {
      if (step.direction != Direction::send) continue;
      outcome.bytes_sent = outcome.bytes_sent.value_or(0) + step.bytes;
      transport_.sent(call.route.group, ranks_[static_cast<std::size_t>(step.peer)], step.bytes);
    }
    return std::make_unique<Counted>(std::move(outcome));
  }

 private:
  RecordingTransport& transport_;
  std::vector<int> ranks_;
  int member_;
  std::vector<MetaStep> steps_;  ///< of the last call
};

}  // namespace

RecordingTransport::RecordingTransport(const Plan& plan, int rank)
    : Transport(std::make_shared<Account>()), plan_(plan), rank_(rank) {}

std::unique_ptr<Pending> RecordingTransport::receive(const Route&, std::span<std::byte>, Combine,
                                                     const Event&) {
  return std::make_unique<Done>();
}

std::unique_ptr<Pending> RecordingTransport::post_send(const Route& route,
                                                       std::span<const std::byte> data,
                                                       const Event&) {
  sent(route.group != nullptr ? route.group : "", route.peer,
       static_cast<std::int64_t>(data.size()));
  return std::make_unique<Done>();
}

std::unique_ptr<SharedTime> RecordingTransport::shared_time(const Cluster&, int) {
  return std::make_unique<NoTime>();
}

std::unique_ptr<MetaCollectives> RecordingTransport::meta_collectives(const std::vector<int>& ranks,
                                                                      int, const Cluster&) {
  return std::make_unique<OneMember>(*this, ranks);
}

std::unique_ptr<Transport> RecordingTransport::worker(const std::string& name) {
  throw std::logic_error("a dry run has no workers: " + name);
}

}  // namespace lockstep
