#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/channel.h"
#include "core/comm/meta/meta_collectives.h"
#include "core/comm/transport/native.h"
#include "core/comm/transport/peers.h"
#include "core/device/tensor.h"

namespace lockstep {

/// A group's members, as its collectives need them. The group owns `ranks` and `name`, and outlives
/// this object.
struct Members {
  Endpoint endpoint;
  const std::vector<int>& ranks;  ///< by member: its rank in the whole run
  int rank = 0;                   ///< this member's index in `ranks`
  const std::string& name;        ///< of the group
};

/// A collective that has not been issued yet.
struct CollectiveCall {
  Channel::Part part;        ///< its span names the built-in algorithm
  std::int64_t scratch = 0;  ///< number of elements that `built_in` receives into before it adds
  DType dtype = DType::f32;  ///< of the scratch
  std::function<void(Peers&)> built_in;            ///< Lockstep's own algorithm
  std::function<void(NativeCollectives&)> native;  ///< the library's call
  /// Called with the collective's modelled end once it is known; may be empty.
  std::function<void(Picoseconds)> ended{};

  /// Allocates the scratch; empty if none is needed.
  Tensor allocate_scratch(const Device& device) const {
    if (scratch == 0) return {};
    return {
        device.memory, {scratch}, MemoryCategory::communication, dtype, "scratch of a collective"};
  }
};

/// Runs the collectives of one group, one after another. Group::collectives chooses the
/// implementation. Belongs to the rank's own thread.
class GroupCollectives {
 public:
  virtual ~GroupCollectives() = default;
  /// Issues the group's next collective. It starts after the compute stream's work so far.
  virtual Work issue(CollectiveCall call) = 0;
  /// Whether 16-bit elements are supported. All implementations support f32.
  virtual bool supports_16_bit() const { return true; }
};

// The implementations. `channel` carries the collectives' messages, and comes from
// Transport::open_channels().

/// For a group of one rank: every collective ends at once. `messages` carries nothing.
std::unique_ptr<GroupCollectives> collectives_alone(const Members& members, Channel& messages);
/// Built-in algorithms, whose messages a worker exchanges while the rank computes.
std::unique_ptr<GroupCollectives> collectives_by_worker(const Members& members, int channel);
/// Built-in algorithms on the meta device, evaluated without messages (see MetaCollectives).
std::unique_ptr<GroupCollectives> collectives_on_meta(const Members& members, int channel,
                                                      std::unique_ptr<MetaCollectives> meta);
/// A library's collectives. If the library enqueues them on a GPU (NativeCollectives::gpu_queue()),
/// the rank's own thread calls it; otherwise, a worker calls it while the rank computes.
std::unique_ptr<GroupCollectives> collectives_of_library(
    const Members& members, int channel, std::unique_ptr<NativeCollectives> library);

}  // namespace lockstep
