#include "core/run/rank/rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/comm/nccl/nccl_transport.h"
#include "core/run/rank/last_resort.h"
#include "core/run/rank/matrix_products.h"

namespace lockstep {

namespace {

std::vector<int> all_ranks(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::unique_ptr<Gpu> open_gpu(const GpuPlan& plan, int rank, bool allow_tf32) {
  if (!plan.any) return nullptr;
  return gpu_library().open(plan.places[static_cast<std::size_t>(rank)].gpu, allow_tf32);
}

/// Returns the kind of device that holds tensors that are not on a GPU.
DeviceKind kind_of(const Options& options) {
  return options.platform.on_meta() ? DeviceKind::meta : DeviceKind::cpu;
}

std::size_t free_memory(const Gpu& gpu) {
  return static_cast<std::size_t>(
      std::max<std::int64_t>(0, gpu.info().memory - gpu.memory_in_use()));
}

/// Returns the transport for this rank's tensors, built on the transport between hosts.
std::unique_ptr<Transport> from_device(std::unique_ptr<Transport> transport, Stream& compute,
                                       const Options& options, bool nccl) {
  Gpu* const gpu = compute.gpu();
  const bool in_threads = options.platform.launch == Launch::threads;
  if (nccl) {
    // For the GPUs of one process, reserves memory now: later, a kernel of NCCL may be waiting for
    // this rank.
    if (in_threads) gpu->reserve(3 * free_memory(*gpu) / 4);
    load_matrix_products(compute, options);
    return nccl_transport(std::move(transport), compute, options.platform.patience_seconds);
  }
  if (gpu != nullptr) {
    if (in_threads) gpu->open_to_peers();
    transport->use(*gpu);
  }
  return transport;
}

/// The run's plan, adapted to the properties of this transport.
Plan plan_over(const Transport& transport, const Options& options) {
  Plan plan = options.plan;
  plan.receives_combine = transport.combines();
  plan.on_meta = options.platform.on_meta();
  return plan;
}

}  // namespace

Rank::Rank(const Options& options, std::unique_ptr<Transport> own_transport, const GpuPlan& gpus,
           OperationBook* book)
    : id(own_transport->rank()),
      count(own_transport->size()),
      clock(options.clock(id)),
      trace(options.output.traced()),
      operations(book != nullptr ? std::make_unique<OperationLog>(*book, id) : nullptr),
      gpu(open_gpu(gpus, id, options.platform.tf32)),
      compute(gpu ? Stream{clock, trace, 0, *gpu, operations.get()}
                  : Stream{clock, trace, 0, kind_of(options), operations.get()}),
      memory(gpu ? Memory{*gpu, compute.queue()} : Memory{kind_of(options)}),
      device{memory, compute},
      transport(from_device(std::move(own_transport), compute, options, by_nccl(gpus, options))),
      plan(plan_over(*transport, options)),
      place(plan.place(id)),
      endpoint{*transport, device, options.plan.collectives},
      world(endpoint, all_ranks(count), "world", transport->open_channels(Group::channels_taken)),
      groups(endpoint, place, world) {
  trace.set_kernels(options.output.kernels);
  if (trace.on()) memory.parts().turn_on();
  transport->computes_on(compute);
  if (const auto& shared = clock.cluster().shared;
      clock.is_modelled() && shared && shared->kernels_beside_collectives != 1)
    compute.slow_beside(std::make_unique<CollectivesInFlight>(
        shared->kernels_beside_collectives,
        [this](Picoseconds time) { transport->wait_until(time); }));
  if (!gpu) return;
  // A kernel may take as long as it likes; NCCL's watchdog sees whether NCCL waits for another
  // rank.
  compute.watch([this] { transport->check(); });
}

std::string Rank::cause(const std::exception& error) const {
  try {
    transport->check();
  } catch (const RunError& first) {
    return first.what();
  }
  return words_of(error);
}

}  // namespace lockstep
