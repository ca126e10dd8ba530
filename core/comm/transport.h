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

#include "core/comm/route.h"
#include "core/time/time.h"

namespace lockstep {

/// What becomes of bytes that arrive: `from` is combined into `into`, both of `bytes` bytes.
using Combine = void (*)(std::byte* into, const std::byte* from, std::size_t bytes);

/// A message under way. Whoever posted it waits for it; a Pending that is destroyed early withdraws
/// its message, or waits for a copy that has begun, so that the buffer may be freed after.
class Pending {
 public:
  virtual ~Pending() = default;
  /// Returns when the message is done: received, or matched by its receiver. Throws RunError where
  /// the run has failed meanwhile, or can't go on (deadlock, a stalled rank, sizes that differ).
  virtual void wait() = 0;
  /// For a receive that is done: the modelled time at which the sender put the message on its lane.
  virtual Picoseconds departure() const = 0;
  /// When the message was done, by the steady clock in nanoseconds: before wait() was called,
  /// maybe. (MPI makes progress only inside its calls: there it is when that was first seen.)
  virtual std::int64_t done_nanoseconds() const = 0;
};

class NativeCollectives;

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

  /// Both return at once. `departure` travels with the message (modelled time).
  std::unique_ptr<Pending> send(const Route& route, std::span<const std::byte> data,
                                Picoseconds departure);
  /// Without `combine` the bytes replace what is there. With it, which only a transport that
  /// combines() takes, they are combined from the sender's own buffer.
  virtual std::unique_ptr<Pending> receive(const Route& route, std::span<std::byte> into,
                                           Combine combine = nullptr) = 0;
  /// Whether a receive can read the peer's buffer in place.
  virtual bool combines() const { return false; }

  /// Collectives of the backend's own between `ranks`, which include this one; null where there are
  /// none. `channel` is one of open_channels.
  virtual std::unique_ptr<NativeCollectives> native(const std::vector<int>& ranks, int channel);

  /// Bytes sent by this rank, all agents together, by operation.
  std::map<std::string, std::int64_t> bytes_sent() const;

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
    std::map<std::string, std::int64_t> bytes_sent;
    std::set<std::string> groups;
    int next_channel = control_channel + 1;
  };
  explicit Transport(std::shared_ptr<Account> account) : account_(std::move(account)) {}
  const std::shared_ptr<Account>& account() const { return account_; }

  virtual std::unique_ptr<Pending> post_send(const Route& route, std::span<const std::byte> data,
                                             Picoseconds departure) = 0;

 private:
  std::shared_ptr<Account> account_;
};

}  // namespace lockstep
