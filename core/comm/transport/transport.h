#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/comm/transport/gpu_lane.h"
#include "core/comm/transport/route.h"
#include "core/plan/communication.h"
#include "core/time/time.h"

namespace lockstep {

/// What becomes of bytes that arrive: `from` is combined into `into`, both of `bytes` bytes, by a
/// device's kernels.
using Combine = void (*)(const Kernels& kernels, Queue queue, std::byte* into,
                         const std::byte* from, std::size_t bytes);

/// A message under way, on a GPU once both sides have posted it. Whoever posted it waits for it; a
/// Pending that is destroyed early withdraws its message, or waits for a copy that has begun, so
/// that the buffer may be freed after.
class Pending {
 public:
  virtual ~Pending() = default;
  /// Returns when the message is done: received, or matched by its receiver; for bytes on a GPU,
  /// when the GPU knows what to do, and marks().done says when it has. Throws RunError where the
  /// run has failed meanwhile, or can't go on (deadlock, a stalled rank, sizes that differ).
  virtual void wait() = 0;
  /// For a receive that is done: the modelled time at which the sender put the message on its lane.
  virtual Picoseconds departure() const = 0;
  /// When the message was done, by the steady clock in nanoseconds: before wait() was called,
  /// maybe. (MPI makes progress only inside its calls: there it is when that was first seen.)
  virtual std::int64_t done_nanoseconds() const = 0;
  /// After wait(), for bytes on a GPU: when they were moved.
  virtual Marks marks() const { return {}; }
};

class NativeCollectives;
class MetaCollectives;
class Stream;
struct Cluster;

/// Point-to-point bytes, nothing else; counts what it sends. Sends are rendezvous, as NCCL's are: a
/// send is done when the receiver has matched it. Receives name their source, and match first in,
/// first out per source and channel. One Transport is one agent's end: a rank's own thread, or one
/// of its communication workers, which share the rank's account of bytes and its channel numbers.
/// An agent waits for one thing at a time. Buffers must live until wait() returns. A view without
/// storage (the meta device) is counted in full, and nothing is moved.
class Transport {
 public:
  /// Traffic of the run itself (final parameters, reports): neither counted nor part of the lesson.
  static constexpr int control_channel = 0;

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const char* name() const = 0;

  /// Another agent of this rank; `name` says what it works for. Must not outlive this one.
  virtual std::unique_ptr<Transport> worker(const std::string& name) = 0;

  /// The first of `count` new channel numbers. Every rank opens the same channels in the same
  /// order, whether or not it talks over them; so the numbers agree.
  int open_channels(int count = 1);

  /// A group of this rank, by its name: at most one at a time, since its lanes are known by it.
  /// Throws std::invalid_argument for a second one.
  void open_group(const std::string& name);
  void close_group(const std::string& name);

  // A GPU's library wants to know beforehand who will talk over a channel; for others this is
  // nothing. Both sides call it, and wait for one another.

  /// All of `ranks`, which include this one, over `count` channels from `channel` on.
  virtual void connect(const std::vector<int>& ranks, int channel, int count);
  /// This rank and `peer`: every rank in ascending order of its peers.
  struct Directions {
    bool sends, receives;
  };
  virtual void connect(int peer, int channel, Directions directions);

  /// From here on views are of this GPU's memory. Before anything is sent, and before workers.
  virtual void use(Gpu& gpu);
  /// Where this agent's messages move on its GPU; null on the CPU.
  GpuLane* lane() const { return lane_.get(); }

  /// Sets the stream on which this rank's own thread computes. It must outlive the transport. A
  /// rank that waits for this one does not time out while this one launches or runs kernels.
  virtual void computes_on(const Stream& /*compute*/) {}

  /// Throws RunError if the run has failed, for who waits for something else than a message.
  virtual void check() const {}
  /// Like check(), but also asks the backend for errors that it has not reported yet.
  virtual void look() const { check(); }
  /// A collective of the backend's own is over when `done` is passed: for who looks after that.
  virtual void expect(MarkPtr /*done*/) {}

  /// Both return at once (where bytes on a GPU travel through the host, when they are there). The
  /// data are there at `ready`, whose time travels with the message (modelled time).
  std::unique_ptr<Pending> send(const Route& route, std::span<const std::byte> data,
                                const Event& ready);
  /// Without `combine` the bytes replace what is there. With it, which only a transport that
  /// combines() takes, they are combined from the sender's own buffer. On a GPU nobody uses `into`
  /// after `free`.
  virtual std::unique_ptr<Pending> receive(const Route& route, std::span<std::byte> into,
                                           Combine combine = nullptr, const Event& free = {}) = 0;
  /// Whether a receive can read the peer's buffer in place.
  virtual bool combines() const { return false; }

  /// Collectives of the backend's own between `ranks`, which include this one; null where there are
  /// none. `channel` is one of open_channels.
  virtual std::unique_ptr<NativeCollectives> native(const std::vector<int>& ranks, int channel);

  /// Collectives between `ranks`, which include this one, for the meta device: evaluated, not
  /// exchanged. Throws std::logic_error if this transport has none. `channel` is one of
  /// open_channels. Must not outlive this.
  virtual std::unique_ptr<MetaCollectives> meta_collectives(const std::vector<int>& ranks,
                                                            int channel, const Cluster& cluster);

  /// Counts bytes that this rank has sent; send() does so itself.
  void count_sent(const char* operation, std::int64_t bytes);
  /// Counts a collective that a library carries out (NativeCollectives).
  void count_library_call(const char* operation);
  /// What this rank has counted, all agents together.
  Traffic traffic() const;
  BytesSent bytes_sent() const { return traffic().bytes_sent; }

  // What a Worker tells of its agent, so that waiting is seen for what it is (see WaitGraph).

  /// This agent has one more job to do.
  virtual void job_queued() {}
  /// It has done one.
  virtual void job_done() {}
  /// One that was queued and not begun will not be done.
  virtual void job_dropped() {}
  /// From here on this agent waits until `worker` has done `jobs` jobs in all. The transport only
  /// notes it; the waiting is the Worker's, and ends with job_done().
  virtual void waits_for_jobs(Transport& worker, std::int64_t jobs, const Route& why);
  /// Whatever this agent waits for from now on is given up with a RunError, until it is told
  /// otherwise.
  virtual void give_up(bool now) = 0;

 protected:
  /// What the agents of one rank have in common.
  struct Account {
    mutable std::mutex mutex;
    Traffic traffic;
    std::set<std::string> groups;
    int next_channel = control_channel + 1;
  };
  explicit Transport(std::shared_ptr<Account> account) : account_(std::move(account)) {}
  const std::shared_ptr<Account>& account() const { return account_; }
  /// Counts bytes that travel with a message in addition to its payload.
  void count_overhead(std::int64_t bytes);

  virtual std::unique_ptr<Pending> post_send(const Route& route, std::span<const std::byte> data,
                                             const Event& ready) = 0;

 private:
  std::shared_ptr<Account> account_;
  std::unique_ptr<GpuLane> lane_;
};

}  // namespace lockstep
