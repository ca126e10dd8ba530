#include "core/run/rank.h"

#include <numeric>

namespace lockstep {

namespace {

std::vector<int> everybody(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

Rank::Rank(const Options& options, std::unique_ptr<Transport> own_transport)
    : id(own_transport->rank()),
      count(own_transport->size()),
      clock(options.clock),
      trace(options.trace != "none"),
      compute(clock, trace, 0, DeviceKind::cpu),
      device{memory, compute},
      transport(std::move(own_transport)),
      endpoint{*transport, device, options.comm},
      mesh(options.mesh()),
      world(endpoint, everybody(count), "world", transport->open_channels(Group::channels_taken)) {
  trace.set_kernels(options.kernels);
}

}  // namespace lockstep
