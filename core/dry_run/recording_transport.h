#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/comm/meta/meta_collectives.h"
#include "core/comm/transport/transport.h"
#include "core/dry_run/dry_run.h"
#include "core/plan/plan.h"

namespace lockstep {

/// The transport of a rank without peers. Every message is done when it is posted; sends are
/// counted as by the transports of a run, and also by group and receiver. A collective runs its
/// algorithm for this member only, with Peers that record the messages.
class RecordingTransport final : public Transport {
 public:
  /// The transport of rank `rank` of the run. `plan` must outlive this object.
  RecordingTransport(const Plan& plan, int rank);

  int rank() const override { return rank_; }
  int size() const override { return plan_.mesh.ranks(); }
  const char* name() const override { return "dry run"; }
  bool combines() const override { return plan_.receives_combine; }
  std::unique_ptr<Pending> receive(const Route&, std::span<std::byte>, Combine,
                                   const Event&) override;
  std::unique_ptr<SharedTime> shared_time(const Cluster& cluster, int channel) override;
  std::unique_ptr<MetaCollectives> meta_collectives(const std::vector<int>& ranks, int channel,
                                                    const Cluster& cluster) override;
  /// Throws std::logic_error: groups on the meta device have no workers.
  std::unique_ptr<Transport> worker(const std::string& name) override;
  void give_up(bool) override {}

  /// Bytes by group and receiver. (Group::issue counts the bytes of collectives by operation.)
  void sent(const char* group, int to, std::int64_t bytes) { sent_to_[group][to] += bytes; }
  SentTo& sent_to() { return sent_to_; }

 protected:
  std::unique_ptr<Pending> post_send(const Route& route, std::span<const std::byte> data,
                                     const Event& ready) override;

 private:
  const Plan& plan_;
  int rank_;
  SentTo sent_to_;
};

}  // namespace lockstep
