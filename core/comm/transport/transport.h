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

#include "core/comm/transport/gpu_queue.h"
#include "core/comm/transport/route.h"
#include "core/plan/communication.h"
#include "core/time/time.h"

namespace lockstep {

/// How arriving bytes are combined: `from` into `into`, both of `bytes` bytes, by a device's
/// kernels.
using Combine = void (*)(const Kernels& kernels, Queue queue, std::byte* into,
                         const std::byte* from, std::size_t bytes);

/// A message in flight (on a GPU, only once both sides have posted it). The agent that posted it
/// waits for it. Destroying a Pending early withdraws the message, or waits for a copy that has
/// already begun, so that the buffer may be freed afterwards.
class Pending {
 public:
  virtual ~Pending() = default;
  /// Returns when the message is done: received, or matched by its receiver. For bytes on a GPU,
  /// returns when the copy is queued; marks().done is passed when it is done. Throws RunError if
  /// the run has failed or cannot continue (deadlock, a stalled rank, mismatched sizes).
  virtual void wait() = 0;
  /// For a completed receive: the modelled time at which the sender put the message on its lane.
  virtual Picoseconds departure() const = 0;
  /// When the message was done, in steady-clock nanoseconds; possibly before wait() was called.
  /// (MPI makes progress only inside its calls, so under MPI this is when a call first noticed it.)
  virtual std::int64_t done_nanoseconds() const = 0;
  /// After wait(), for bytes on a GPU: when they were copied.
  virtual Marks marks() const { return {}; }
};

class NativeCollectives;
class MetaCollectives;
class Stream;
struct Cluster;

/// Point-to-point transfer of bytes, nothing else; counts the bytes that it sends. Sends are
/// rendezvous, as in NCCL: a send is done when the receiver has matched it. Receives name their
/// source, and match first in, first out per source and channel. One Transport is one agent's
/// endpoint. An agent is a rank's own thread or one of its communication workers; they share the
/// rank's byte counts and channel numbers. An agent waits for one thing at a time. Buffers must
/// live until wait() returns. A view without storage (the meta device) is counted in full, but
/// nothing is copied.
class Transport {
 public:
  /// The run's own traffic (final parameters, reports), which is not counted as the lesson's.
  static constexpr int control_channel = 0;

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const char* name() const = 0;

  /// Creates another agent of this rank; `name` says what it is for. It must not outlive this
  /// transport.
  virtual std::unique_ptr<Transport> worker(const std::string& name) = 0;

  /// Returns the first of `count` new channel numbers. Every rank opens the same channels in the
  /// same order, even those it does not use, so that the numbers agree.
  int open_channels(int count = 1);

  /// Registers one of this rank's groups by name. Names must be unique while open, because they
  /// name the lanes. Throws std::invalid_argument for a duplicate.
  void open_group(const std::string& name);
  void close_group(const std::string& name);

  // A GPU's library must know in advance which ranks will use a channel; for other transports these
  // are no-ops. All ranks involved call them, and wait for one another.

  /// Connects all of `ranks`, which include this one, on `count` channels starting with `channel`.
  virtual void connect(const std::vector<int>& ranks, int channel, int count);
  /// Connects this rank and `peer`. Every rank connects to its peers in ascending order.
  struct Directions {
    bool sends, receives;
  };
  virtual void connect(int peer, int channel, Directions directions);

  /// From here on, views are in this GPU's memory. Call it before sending anything or creating
  /// workers.
  virtual void use(Gpu& gpu);
  /// The GPU queue for this agent's messages; null on the CPU.
  GpuQueue* gpu_queue() const { return gpu_queue_.get(); }

  /// Sets the stream on which this rank's own thread computes. It must outlive the transport. A
  /// rank that waits for this one does not time out while this one launches or runs kernels.
  virtual void computes_on(const Stream& /*compute*/) {}

  /// Throws RunError if the run has failed. For an agent that waits for something other than a
  /// message.
  virtual void check() const {}
  /// Like check(), but also asks the backend for errors that it has not reported yet.
  virtual void look() const { check(); }
  /// Watches one of the backend's own collectives, which is over when `done` is passed.
  virtual void expect(MarkPtr /*done*/) {}

  /// send() and receive() return immediately; if bytes on a GPU are staged through the host, only
  /// once they are there. The data are ready at `ready`, whose time travels with the message
  /// (modelled time).
  std::unique_ptr<Pending> send(const Route& route, std::span<const std::byte> data,
                                const Event& ready);
  /// Without `combine`, the bytes overwrite `into`. With it (only if combines() is true), they are
  /// combined directly from the sender's buffer. On a GPU, nothing else uses `into` after `free`.
  virtual std::unique_ptr<Pending> receive(const Route& route, std::span<std::byte> into,
                                           Combine combine = nullptr, const Event& free = {}) = 0;
  /// Whether a receive can read the peer's buffer in place.
  virtual bool combines() const { return false; }

  /// The backend's own collectives between `ranks`, which include this one; null if it has none.
  /// `channel` comes from open_channels.
  virtual std::unique_ptr<NativeCollectives> native(const std::vector<int>& ranks, int channel);

  /// Collectives on the meta device between `ranks`, which include this one: evaluated, not
  /// exchanged. Throws std::logic_error if this transport has none. `channel` comes from
  /// open_channels. They must not outlive this transport.
  virtual std::unique_ptr<MetaCollectives> meta_collectives(const std::vector<int>& ranks,
                                                            int channel, const Cluster& cluster);

  /// Counts bytes that this rank has sent; send() calls it itself.
  void count_sent(const char* operation, std::int64_t bytes);
  /// Counts a collective that a library performs (NativeCollectives).
  void count_library_call(const char* operation);
  /// The rank's traffic so far, over all its agents.
  Traffic traffic() const;
  BytesSent bytes_sent() const { return traffic().bytes_sent; }

  // A Worker reports its agent's jobs here, so that a WaitGraph can tell idle workers from blocked
  // ones.

  /// Reports that this agent has one more job.
  virtual void job_queued() {}
  /// Reports that this agent has finished a job.
  virtual void job_done() {}
  /// Reports that a queued job will not run.
  virtual void job_dropped() {}
  /// From here on, this agent waits until `worker` has done `jobs` jobs in total. The transport
  /// only records this; the Worker does the waiting, until job_done().
  virtual void waits_for_jobs(Transport& worker, std::int64_t jobs, const Route& why);
  /// With `now` true, makes all current and later waits of this agent throw RunError, until called
  /// with false.
  virtual void give_up(bool now) = 0;

 protected:
  /// State shared by the agents of one rank.
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
  std::unique_ptr<GpuQueue> gpu_queue_;
};

}  // namespace lockstep
