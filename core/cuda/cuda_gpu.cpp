#include "core/cuda/cuda_gpu.h"

#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <limits>

#include "core/cuda/check.h"
#include "core/cuda/nccl_communicator.h"
#include "kernels/cuda/cuda_kernels.h"

namespace lockstep::cuda {

namespace {

cudaEvent_t event_of(const Mark& mark) {
  return static_cast<const CudaMark&>(mark).event();
}

}  // namespace

EventPool::~EventPool() {
  for (cudaEvent_t event : idle_) cudaEventDestroy(event);
}

cudaEvent_t EventPool::take(int gpu) {
  {
    const std::lock_guard lock{mutex_};
    if (!idle_.empty()) {
      cudaEvent_t event = idle_.back();
      idle_.pop_back();
      return event;
    }
  }
  cudaEvent_t event = nullptr;
  expect_success(cudaEventCreateWithFlags(&event, cudaEventBlockingSync),
                 "cudaEventCreateWithFlags", gpu);
  return event;
}

void EventPool::give_back(cudaEvent_t event) noexcept {
  // The event may be recorded again even if it has not been passed, because a pending wait refers
  // to the record that was current when the wait was enqueued.
  const std::lock_guard lock{mutex_};
  idle_.push_back(event);
}

CudaGpu::CudaGpu(int index, const GpuInfo& info, bool allow_tf32) : index_(index), info_(info) {
  make_current();
  // Makes waiting threads sleep instead of spinning, because there may be more ranks than cores.
  check(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), "cudaSetDeviceFlags");
  open_pool();
  kernels_ = make_cuda_kernels(allow_tf32);
}

/// Makes the pool keep freed memory: by default each synchronization returns freed memory to the
/// system, which slows down the next allocation. Also disables the pool's reuse of memory that a
/// stream has yet to release, because the new owner's stream would have to wait for the first
/// stream, which may be waiting for a message.
void CudaGpu::open_pool() {
  check(cudaDeviceGetDefaultMemPool(&pool_, index_), "cudaDeviceGetDefaultMemPool");
  std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
  check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep),
        "cudaMemPoolSetAttribute");
  int no = 0;
  check(cudaMemPoolSetAttribute(pool_, cudaMemPoolReuseAllowInternalDependencies, &no),
        "cudaMemPoolSetAttribute");
}

void CudaGpu::open_to_peers() {
  make_current();
  int gpus = 0;
  check(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
  for (int peer = 0; peer < gpus; ++peer) {
    int reachable = 0;
    if (peer != index_)
      check(cudaDeviceCanAccessPeer(&reachable, peer, index_), "cudaDeviceCanAccessPeer");
    if (reachable == 0) continue;
    cudaMemAccessDesc access{};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = peer;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    check(cudaMemPoolSetAccess(pool_, &access, 1), "cudaMemPoolSetAccess");
  }
}

void CudaGpu::check(cudaError_t status, const char* call) const {
  expect_success(status, call, index_);
}
void CudaGpu::make_current() const {
  check(cudaSetDevice(index_), "cudaSetDevice");
}

const Kernels& CudaGpu::kernels() const {
  make_current();
  return kernels_;
}

void* CudaGpu::allocate(std::size_t bytes, Queue queue) {
  make_current();
  void* data = nullptr;
  // An allocation of 0 bytes would return null.
  const cudaError_t status = cudaMallocAsync(&data, bytes == 0 ? 1 : bytes, stream_of(queue));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error, so that the next call does not report it
    throw std::bad_alloc{};
  }
  check(status, "cudaMallocAsync");
  return data;
}

void CudaGpu::release(void* data, Queue queue) noexcept {
  // Any error here comes from earlier work; the next call that can throw reports it.
  cudaSetDevice(index_);
  cudaFreeAsync(data, stream_of(queue));
}

void* CudaGpu::allocate_pinned(std::size_t bytes) {
  make_current();
  void* data = nullptr;
  check(cudaHostAlloc(&data, bytes == 0 ? 1 : bytes, cudaHostAllocPortable), "cudaHostAlloc");
  return data;
}

void CudaGpu::release_pinned(void* data) noexcept {
  cudaSetDevice(index_);
  cudaFreeHost(data);
}

std::int64_t CudaGpu::memory_in_use() const {
  make_current();
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  std::uint64_t used = 0;  // the peak so far
  check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemHigh, &used),
        "cudaMemPoolGetAttribute");
  return static_cast<std::int64_t>(total - free - (reserved_ - std::min(reserved_, used)));
}

void CudaGpu::reserve(std::size_t bytes) {
  const Queue queue = make_queue(false);
  void* data = nullptr;
  if (cudaMallocAsync(&data, bytes, stream_of(queue)) == cudaSuccess) {
    release(data, queue);
    check(cudaStreamSynchronize(stream_of(queue)), "cudaStreamSynchronize");
    std::uint64_t none = 0;
    check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrUsedMemHigh, &none),
          "cudaMemPoolSetAttribute");
    reserved_ = bytes;
  } else {
    cudaGetLastError();
  }
  drop_queue(queue);
}

Queue CudaGpu::make_queue(bool urgent) {
  make_current();
  int least = 0;
  int greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgent ? greatest : least),
        "cudaStreamCreateWithPriority");
  const int now = ++queues_;
  int most = most_queues_;
  while (most < now && !most_queues_.compare_exchange_weak(most, now)) {
  }
  return {stream};
}

void CudaGpu::drop_queue(Queue queue) noexcept {
  cudaSetDevice(index_);
  cudaStreamDestroy(stream_of(queue));
  --queues_;
}

MarkPtr CudaGpu::record(Queue queue) {
  make_current();
  auto mark = std::make_shared<CudaMark>(events_, events_->take(index_));
  check(cudaEventRecord(mark->event(), stream_of(queue)), "cudaEventRecord");
  return mark;
}

void CudaGpu::wait(Queue queue, const Mark& mark) {
  make_current();
  check(cudaStreamWaitEvent(stream_of(queue), event_of(mark), 0), "cudaStreamWaitEvent");
}

bool CudaGpu::passed(const Mark& mark) {
  make_current();
  const cudaError_t status = cudaEventQuery(event_of(mark));
  if (status == cudaErrorNotReady) return false;
  check(status, "cudaEventQuery");
  return true;
}

double CudaGpu::milliseconds(const Mark& from, const Mark& to) {
  make_current();
  float elapsed = 0.0F;
  check(cudaEventElapsedTime(&elapsed, event_of(from), event_of(to)), "cudaEventElapsedTime");
  return static_cast<double>(elapsed);
}

void CudaGpu::copy(Queue queue, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  make_current();
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(queue)), "cudaMemcpyAsync");
}

void CudaGpu::push_range(const char* name) {
  nvtxRangePushA(name);
}
void CudaGpu::pop_range() {
  nvtxRangePop();
}

std::vector<std::byte> CudaGpu::make_communicator_id() {
  make_current();
  return nccl::make_id();
}

std::unique_ptr<GpuCommunicator> CudaGpu::join(const std::vector<std::byte>& id, int ranks,
                                               int rank, WaitCheck check) {
  make_current();
  return nccl::join(index_, id, ranks, rank, std::move(check));
}

}  // namespace lockstep::cuda
