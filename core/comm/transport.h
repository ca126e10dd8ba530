#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "core/time/time.h"

namespace lockstep {

/// Where a message goes, and what it is part of.
struct Route {
  int peer = 0;                    ///< the other rank, as numbered in the whole run
  int channel = 0;                 ///< messages of one channel between two ranks arrive in order
  const char* operation = "send";  ///< what the bytes are counted under; static lifetime
  std::source_location where = std::source_location::current();
};

/// A message under way. Whoever posted it waits for it; a Pending that is destroyed early withdraws
/// its message, or waits for a copy that has begun, so that the buffer may be freed after.
class Pending {
 public:
  virtual ~Pending() = default;
  /// Returns when the message is done: received, or matched by its receiver. Throws RunError where
  /// the run has failed meanwhile, or can't go on (deadlock, sizes that differ).
  virtual void wait() = 0;
  /// For a receive that is done: the modelled time at which the sender put the message on its lane.
  virtual Picoseconds departure() const = 0;
  /// When the message was done, by the steady clock in nanoseconds: before wait() was called,
  /// maybe. (MPI makes progress only inside its calls: there it is when that was first seen.)
  virtual std::int64_t done_nanoseconds() const = 0;
};

/// Point-to-point bytes, nothing else; counts what it sends. Sends are rendezvous, as NCCL's are: a
/// send is done when the receiver has matched it. Receives name their source, and match first in,
/// first out per source and channel. One Transport is one rank's end; buffers must live until
/// wait() returns.
class Transport {
 public:
  /// Traffic of the run itself (final parameters, reports): neither counted nor part of the lesson.
  static constexpr int control_channel = 0;

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const char* name() const = 0;

  /// The number of a new channel. Every rank opens the same channels in the same order, whether or
  /// not it talks over them; so the numbers agree.
  int open_channel() { return next_channel_++; }

  /// Both return at once. `departure` travels with the message (modelled time).
  std::unique_ptr<Pending> send(const Route& route, std::span<const std::byte> data,
                                Picoseconds departure);
  virtual std::unique_ptr<Pending> receive(const Route& route, std::span<std::byte> into) = 0;

  /// Bytes sent by this rank, by operation.
  const std::map<std::string, std::int64_t>& bytes_sent() const { return bytes_sent_; }

 protected:
  virtual std::unique_ptr<Pending> post_send(const Route& route, std::span<const std::byte> data,
                                             Picoseconds departure) = 0;

 private:
  std::map<std::string, std::int64_t> bytes_sent_;
  int next_channel_ = control_channel + 1;
};

/// Moves bytes on the control channel: every rank's `mine` reaches rank 0, in order of rank; other
/// ranks get an empty list.
std::vector<std::string> gather_to_root(Transport& transport, const std::string& mine);
/// Rank 0's text reaches every rank.
std::string broadcast_from_root(Transport& transport, std::string text);

}  // namespace lockstep
