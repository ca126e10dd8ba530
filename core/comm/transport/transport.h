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

/// Combines `bytes` arriving bytes at `from` with the bytes at `into`, using a device's kernels.
using Combine = void (*)(const Kernels& kernels, Queue queue, std::byte* into,
                         const std::byte* from, std::size_t bytes);

/// A message that one agent has posted, and for which that agent will wait. The destructor
/// withdraws a message that is not done, or waits for its copy if the copy has begun, so the buffer
/// may be freed afterwards.
class Pending {
 public:
  virtual ~Pending() = default;
  /// Returns when the message has been received (for a receive) or matched by its receiver (for a
  /// send). If the bytes are on a GPU, returns when the copy is queued, and marks().done is passed
  /// when the copy is done. Throws RunError if the run has failed or cannot continue (deadlock, a
  /// stalled rank, mismatched sizes).
  virtual void wait() = 0;
  /// For a completed receive, returns the modelled time at which the message started on the
  /// sender's lane.
  virtual Picoseconds departure() const = 0;
  /// The time at which the message was done, in steady-clock nanoseconds; this time may be before
  /// wait() was called. (MPI makes progress only inside its calls, so under MPI this is the time at
  /// which a call found the message done.)
  virtual std::int64_t done_nanoseconds() const = 0;
  /// After wait(), if the bytes are on a GPU: the marks before and after their copy.
  virtual Marks marks() const { return {}; }
};

class NativeCollectives;
class MetaCollectives;
class SharedTime;
class Stream;
struct Cluster;

/// Transfers bytes point to point, and counts the bytes that it sends. As in NCCL, a send is done
/// only when the receiver has matched it. Receives name their source, and match sends in first-in,
/// first-out order per source and channel. A Transport is the endpoint of one agent: a rank's own
/// thread, or one of its communication workers. The agents of a rank share its byte counts and
/// channel numbers. An agent waits for one message or job at a time. Buffers must live until wait()
/// returns. A buffer without storage (the meta device) is counted in full, but not copied.
class Transport {
 public:
  /// Carries the run's own messages (final parameters, reports), which are not counted as traffic.
  static constexpr int control_channel = 0;
  /// The same, for an agent that works beside the rank's own thread.
  static constexpr int background_channel = 16'382;
  static constexpr bool is_control(int channel) {
    return channel == control_channel || channel == background_channel;
  }

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const char* name() const = 0;

  /// Creates the endpoint of another agent of this rank. `name` describes the agent's purpose. The
  /// endpoint must not outlive this transport.
  virtual std::unique_ptr<Transport> worker(const std::string& name) = 0;

  /// Opens `count` channels with consecutive numbers, and returns the first number. Every rank
  /// opens the same channels in the same order, even those that it does not use, so that the
  /// channel numbers agree on all ranks.
  int open_channels(int count = 1);

  /// Registers the name of one of this rank's groups. Throws std::invalid_argument if an open group
  /// has the same name, because the lanes of the trace are named after groups.
  void open_group(const std::string& name);
  void close_group(const std::string& name);

  /// From now on, this agent's control messages (control.h) use the background channel, so that
  /// they are not taken for those of the rank's own thread.
  void work_in_background() { control_ = background_channel; }
  /// The channel of this agent's control messages.
  int control() const { return control_; }

  // NCCL must know in advance which ranks will use a channel; in other transports these functions
  // do nothing. They are collective over the ranks that they connect.

  /// Connects all of `ranks`, which include this one, on `count` channels starting with `channel`.
  virtual void connect(const std::vector<int>& ranks, int channel, int count);
  /// Connects this rank and `peer`. Each rank must connect to its peers in ascending order.
  struct Directions {
    bool sends, receives;
  };
  virtual void connect(int peer, int channel, Directions directions);
  /// Declares that the connections to all peers on this channel are no longer in use. A later
  /// connect() may use them again, so all ranks disconnect and connect in the same order.
  virtual void disconnect(int /*channel*/) {}

  /// Declares that all views are in this GPU's memory. Call it before sending anything or creating
  /// workers.
  virtual void use(Gpu& gpu);
  /// The GPU queue for this agent's messages; null on the CPU.
  GpuQueue* gpu_queue() const { return gpu_queue_.get(); }

  /// Sets the stream on which this rank's own thread computes. The stream must outlive the
  /// transport. Ranks that are waiting for this rank do not time out while it is launching or
  /// running kernels.
  virtual void computes_on(const Stream& /*compute*/) {}

  /// Throws RunError if the run has failed. Agents call this while they are waiting for something
  /// other than a message.
  virtual void check() const {}
  /// A rank's communicators of NCCL, and the memory of its GPU that their creation and their first
  /// operation took.
  struct Communicators {
    int count = 0;
    std::int64_t bytes = 0;
  };
  virtual Communicators communicators() const { return {}; }
  /// Watches one of the backend's own collectives, which runs between these marks.
  virtual void expect(Marks /*marks*/) {}

  /// Posts a send and returns; if the data is on a GPU and is staged through the host, returns once
  /// it is on the host. The data is ready at `ready`, whose modelled time travels with the message.
  std::unique_ptr<Pending> send(const Route& route, std::span<const std::byte> data,
                                const Event& ready);
  /// Posts a receive and returns. Without `combine`, the bytes overwrite `into`. With `combine`
  /// (only if combines() is true), they are combined with `into` directly from the sender's buffer.
  /// On a GPU, `into` is no longer in use after `free`.
  virtual std::unique_ptr<Pending> receive(const Route& route, std::span<std::byte> into,
                                           Combine combine = nullptr, const Event& free = {}) = 0;
  /// Whether a receive can combine directly from the sender's buffer.
  virtual bool combines() const { return false; }

  /// Returns the backend's own collectives between `ranks`, which include this rank; null if the
  /// backend has none. `channel` comes from open_channels().
  virtual std::unique_ptr<NativeCollectives> native(const std::vector<int>& ranks, int channel);

  /// Returns collectives on the meta device between `ranks`, which include this rank. They are
  /// evaluated without sending messages, and must not outlive this transport. `channel` comes from
  /// open_channels(). Throws std::logic_error if this transport does not support the meta device.
  virtual std::unique_ptr<MetaCollectives> meta_collectives(const std::vector<int>& ranks,
                                                            int channel, const Cluster& cluster);

  /// Returns the object that times the messages of one of this agent's Channels on shared links.
  /// Must not outlive this transport. Throws std::logic_error if this transport does not support
  /// shared links.
  virtual std::unique_ptr<SharedTime> shared_time(const Cluster& cluster, int channel);

  /// With shared links: returns once all events before a modelled time are known; this agent's own
  /// clock has reached that time.
  virtual void wait_until(Picoseconds /*time*/) {}

  /// Counts this endpoint's traffic as traffic of `other`, which is of the same rank. Call it
  /// before sending anything or creating workers.
  void count_on(const Transport& other);
  /// Counts bytes that this rank has sent. send() already calls this.
  void count_sent(const char* operation, std::int64_t bytes);
  /// Counts a collective that the backend's library performs (NativeCollectives).
  void count_library_call(const char* operation);
  /// The rank's traffic so far, over all its agents.
  Traffic traffic() const;
  BytesSent bytes_sent() const { return traffic().bytes_sent; }

  // A Worker reports its agent's jobs here, so that a WaitGraph can distinguish idle workers from
  // blocked ones.

  /// Reports that a job has been added to this agent's queue.
  virtual void job_queued() {}
  /// Reports that this agent has finished a job.
  virtual void job_done() {}
  /// Reports that a queued job will not run.
  virtual void job_dropped() {}
  /// Reports that this agent is about to wait until `worker` has done `jobs` jobs in total. The
  /// transport only records the wait; the Worker performs it.
  virtual void waits_for_jobs(Transport& worker, std::int64_t jobs, const Route& why);
  /// give_up(true) makes all current and later waits of this agent throw RunError, until
  /// give_up(false).
  virtual void give_up(bool now) = 0;

 protected:
  struct Counts {
    std::mutex mutex;
    Traffic traffic;
  };
  /// State shared by the agents of one rank.
  struct Account {
    std::mutex mutex;
    std::set<std::string> groups;
    int next_channel = control_channel + 1;
    std::shared_ptr<Counts> counts = std::make_shared<Counts>();
  };
  explicit Transport(std::shared_ptr<Account> account) : account_(std::move(account)) {}
  const std::shared_ptr<Account>& account() const { return account_; }
  /// Counts bytes that the transport adds to a message's payload.
  void count_overhead(std::int64_t bytes);

  virtual std::unique_ptr<Pending> post_send(const Route& route, std::span<const std::byte> data,
                                             const Event& ready) = 0;

 private:
  std::shared_ptr<Account> account_;
  std::unique_ptr<GpuQueue> gpu_queue_;
  int control_ = control_channel;
};

}  // namespace lockstep
