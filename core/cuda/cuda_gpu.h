#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "core/device/gpu.h"

namespace lockstep::cuda {

/// A pool of CUDA events, because creating an event takes longer than recording one. Marks share
/// ownership of the pool, so the pool may outlive the CudaGpu. All events belong to one GPU, which
/// must be current in every call.
class EventPool {
 public:
  EventPool() = default;
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  ~EventPool();

  cudaEvent_t take(int gpu);
  void give_back(cudaEvent_t event) noexcept;

 private:
  std::mutex mutex_;
  std::vector<cudaEvent_t> idle_;
};

class CudaMark final : public Mark {
 public:
  CudaMark(std::shared_ptr<EventPool> pool, cudaEvent_t event)
      : pool_(std::move(pool)), event_(event) {}
  CudaMark(const CudaMark&) = delete;
  CudaMark& operator=(const CudaMark&) = delete;
  ~CudaMark() override { pool_->give_back(event_); }

  cudaEvent_t event() const { return event_; }

 private:
  std::shared_ptr<EventPool> pool_;
  cudaEvent_t event_;
};

/// Implements Gpu with the CUDA runtime: queues are non-blocking streams, marks are events, and
/// memory comes from the GPU's stream-ordered pool, which retains freed memory. core/device/gpu.h
/// documents the calls.
///
/// CUDA's current GPU is a property of the thread, so every call sets it. This costs tens of
/// nanoseconds, and ensures that no call uses the wrong GPU.
class CudaGpu final : public Gpu {
 public:
  CudaGpu(int index, const GpuInfo& info, bool allow_tf32);

  int index() const override { return index_; }
  const GpuInfo& info() const override { return info_; }
  /// The kernels run on the calling thread's current GPU, which this call sets.
  const Kernels& kernels() const override;

  void* allocate(std::size_t bytes, Queue queue) override;
  void release(void* data, Queue queue) noexcept override;
  void* allocate_pinned(std::size_t bytes) override;
  void release_pinned(void* data) noexcept override;
  std::int64_t memory_in_use() const override;
  void reserve(std::size_t bytes) override;
  void open_to_peers() override;

  Queue make_queue(bool urgent) override;
  void drop_queue(Queue queue) noexcept override;
  int most_queues() const override { return most_queues_; }
  MarkPtr record(Queue queue) override;
  void wait(Queue queue, const Mark& mark) override;
  bool passed(const Mark& mark) override;
  double milliseconds(const Mark& from, const Mark& to) override;
  void copy(Queue queue, void* to, const void* from, std::size_t bytes) override;

  void push_range(const char* name) override;
  void pop_range() override;

  std::vector<std::byte> make_communicator_id() override;
  std::unique_ptr<GpuCommunicator> join(const std::vector<std::byte>& id, int ranks, int rank,
                                        WaitCheck check) override;

 private:
  void make_current() const;
  void check(cudaError_t status, const char* call) const;
  void open_pool();

  int index_;
  GpuInfo info_;
  Kernels kernels_;
  cudaMemPool_t pool_ = nullptr;
  std::uint64_t reserved_ = 0;  ///< bytes
  std::atomic<int> queues_ = 0;
  std::atomic<int> most_queues_ = 0;
  std::shared_ptr<EventPool> events_ = std::make_shared<EventPool>();
};

}  // namespace lockstep::cuda
