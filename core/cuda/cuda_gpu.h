#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <mutex>
#include <vector>

#include "core/device/gpu.h"

namespace lockstep::cuda {

/// CUDA events that are not in use: making one takes longer than recording it. Outlives the GPU
/// while one of its marks does. Events are of one GPU; all calls are made with that one current.
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

/// One rank's use of a GPU through the CUDA runtime: queues are non-blocking streams, marks are
/// events, memory comes from the GPU's stream-ordered pool, which keeps what is freed. What the
/// calls do is said in core/device/gpu.h.
///
/// CUDA's current GPU belongs to a thread and not to this object, so every call sets it: that costs
/// some tens of nanoseconds, and leaves no way to have it wrong.
class CudaGpu final : public Gpu {
 public:
  CudaGpu(int index, const GpuInfo& info, bool allow_tf32);

  int index() const override { return index_; }
  const GpuInfo& info() const override { return info_; }
  /// They run on the calling thread's current GPU, which this call sets, as every other does.
  const Kernels& kernels() const override;

  void* allocate(std::size_t bytes, Queue queue) override;
  void release(void* data, Queue queue) noexcept override;
  void* allocate_pinned(std::size_t bytes) override;
  void release_pinned(void* data) noexcept override;
  std::int64_t memory_in_use() const override;

  Queue make_queue(bool urgent) override;
  void drop_queue(Queue queue) noexcept override;
  MarkPtr record(Queue queue) override;
  void wait(Queue queue, const Mark& mark) override;
  bool passed(const Mark& mark) override;
  double milliseconds(const Mark& from, const Mark& to) override;
  void copy(Queue queue, void* to, const void* from, std::size_t bytes) override;

  void push_range(const char* name) override;
  void pop_range() override;

  std::vector<std::byte> make_communicator_id() override;
  std::unique_ptr<GpuCommunicator> join(const std::vector<std::byte>& id, int ranks,
                                        int rank) override;

 private:
  void make_current() const;
  void check(cudaError_t status, const char* call) const;
  void open_pool();

  int index_;
  GpuInfo info_;
  std::unique_ptr<Kernels> kernels_;
  std::shared_ptr<EventPool> events_ = std::make_shared<EventPool>();
};

}  // namespace lockstep::cuda
