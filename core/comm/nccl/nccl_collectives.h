#pragma once

#include "core/comm/transport/gpu_communicator.h"
#include "core/comm/transport/native.h"

namespace lockstep {

/// Implements NativeCollectives with NCCL. NCCL's reduce-scatter and all-gather require equal
/// chunks; for unequal chunks, one reduce or broadcast per chunk is submitted, all in one NCCL
/// group.
class NcclCollectives final : public NativeCollectives {
 public:
  NcclCollectives(GpuCommunicator& communicator, GpuQueue& gpu_queue)
      : communicator_(communicator), gpu_queue_(gpu_queue) {}

  GpuQueue* gpu_queue() override { return &gpu_queue_; }
  bool supports_16_bit() const override { return true; }

  void broadcast(View data, int root) override;
  void all_reduce(View data) override;
  void reduce_scatter(View data, View own, std::span<const int> counts) override;
  void all_gather(View data, std::span<const int> counts) override;
  void gather(View data, std::span<const int> counts, int root) override;
  void all_to_all(View out, std::span<const int> send_counts, View in,
                  std::span<const int> receive_counts) override;
  void barrier() override;

 private:
  Queue queue() const { return gpu_queue_.handle(); }

  GpuCommunicator& communicator_;
  GpuQueue& gpu_queue_;
};

}  // namespace lockstep
