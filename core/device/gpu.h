#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace lockstep {

/// A point on a GPU queue (a CUDA event). A mark is passed when all work enqueued before it is
/// done. Any number of waiters may share a mark, and it may be destroyed before it is passed.
class Mark {
 public:
  virtual ~Mark() = default;
};
using MarkPtr = std::shared_ptr<const Mark>;

/// Properties of a GPU that can be queried without opening it.
struct GpuInfo {
  std::string name;            ///< "NVIDIA H100 80GB HBM3"
  std::string address;         ///< PCI bus address; the same in all processes that share the GPU
  int compute_capability = 0;  ///< 90 for 9.0
  int multiprocessors = 0;
  std::int64_t memory = 0;  ///< bytes
};

class GpuCommunicator;

/// Called repeatedly while a call of NCCL is in progress, with the seconds that it has taken so
/// far. If the function throws, the caller stops waiting, and the exception propagates.
using WaitCheck = std::function<void(double waited)>;

/// One rank's interface to a GPU: memory, queues and their marks, copies, and kernels. core/cuda
/// implements it with CUDA, and gpu_library() loads that implementation at run time, so that the
/// rest of Lockstep builds and starts without CUDA. Any of the rank's threads may call any
/// function. On failure, functions throw std::runtime_error, naming the call, the GPU and CUDA's
/// error.
class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual int index() const = 0;
  virtual const GpuInfo& info() const = 0;
  /// This GPU's kernels; see kernels/kernels.h.
  virtual const Kernels& kernels() const = 0;

  // -- memory -------------------------------------------------------------------------------------
  /// Allocates uninitialized memory, 256-byte aligned, from the stream-ordered pool. The memory may
  /// be used by work enqueued on `queue` after this call. Throws std::bad_alloc if the GPU's memory
  /// is exhausted.
  virtual void* allocate(std::size_t bytes, Queue queue) = 0;
  virtual void release(void* data, Queue queue) noexcept = 0;
  /// Allocates pinned host memory, which the GPU can read and write while the host continues.
  virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void release_pinned(void* data) noexcept = 0;
  /// Returns the number of bytes of GPU memory in use by all processes together, as reported by the
  /// device, excluding bytes that reserve() has set aside and that have never been used.
  virtual std::int64_t memory_in_use() const = 0;
  /// Makes the pool take `bytes` from the device now, if that many are free. Allocations of up to
  /// that many bytes in total then map no memory. Mapping memory while a kernel of NCCL runs on any
  /// of the process's GPUs may wait for that kernel, which may in turn wait for this rank (NCCL
  /// issue 787).
  virtual void reserve(std::size_t bytes) = 0;
  /// Gives other GPUs access to this GPU's memory, if they can reach it, for copies between GPUs.
  virtual void open_to_peers() = 0;

  // -- queues and marks ---------------------------------------------------------------------------
  /// Creates a queue. If `urgent`, the GPU schedules the queue's pending kernels before pending
  /// kernels of other queues.
  virtual Queue make_queue(bool urgent) = 0;
  /// Destroys the queue once its work is done.
  virtual void drop_queue(Queue queue) noexcept = 0;
  /// The largest number of queues that existed at the same time. Queues share a limited number of
  /// hardware queues (see gpu_library.cpp); in a shared one, work that waits holds up the work
  /// behind it.
  virtual int most_queues() const = 0;
  virtual MarkPtr record(Queue queue) = 0;
  /// Keeps work enqueued on `queue` after this call from starting before `mark` is passed. Does not
  /// block the host.
  virtual void wait(Queue queue, const Mark& mark) = 0;
  /// Whether the mark is passed. Throws if an earlier kernel has failed.
  virtual bool passed(const Mark& mark) = 0;
  /// Returns the time between two marks on this GPU. Both must be passed.
  virtual double milliseconds(const Mark& from, const Mark& to) = 0;

  /// Enqueues a copy between this GPU, another GPU or the host; the addresses determine the
  /// direction. Blocks the host if either address is in host memory that is not pinned. The host
  /// may read the result only after a later mark is passed.
  virtual void copy(Queue queue, void* to, const void* from, std::size_t bytes) = 0;

  // -- profilers ----------------------------------------------------------------------------------
  /// Opens an NVTX range on the calling thread, so that Nsight Systems shows the same names as
  /// Lockstep's viewer.
  virtual void push_range(const char* name) = 0;
  virtual void pop_range() = 0;

  // -- collectives --------------------------------------------------------------------------------
  /// Returns the 128-byte id of a new communicator. One rank calls this and sends the id to the
  /// other ranks.
  virtual std::vector<std::byte> make_communicator_id() = 0;
  /// Joins the communicator with this id and `ranks` ranks. Collective: all these ranks call join()
  /// at the same time, each with its own GPU. While a rank is missing, and in all later operations
  /// that have to wait for other ranks, the communicator calls `check` (which may be empty).
  virtual std::unique_ptr<GpuCommunicator> join(const std::vector<std::byte>& id, int ranks,
                                                int rank, WaitCheck check) = 0;
};

/// The GPUs that are visible to this process, and the function that opens them.
class GpuLibrary {
 public:
  virtual ~GpuLibrary() = default;
  /// The GPUs, in the order of their indices.
  virtual const std::vector<GpuInfo>& gpus() const = 0;
  /// Opens a GPU for one rank. Several ranks may open the same GPU. If `allow_tf32`, f32 matrix
  /// products may round their inputs to 10 mantissa bits, to use tensor cores.
  virtual std::unique_ptr<Gpu> open(int index, bool allow_tf32) = 0;
  std::unique_ptr<Gpu> open(int index) { return open(index, false); }
  /// Whether NCCL is available, so that Gpu::join can be called.
  virtual bool has_nccl() const = 0;
  /// Returns, for example, "CUDA 13.0, driver 13.0, NCCL 2.28.3".
  virtual std::string versions() const = 0;
};

/// Makes CUDA load all kernels when it starts, unless $CUDA_MODULE_LOADING says otherwise. Takes
/// time and memory, so only runs of several ranks call it, before their first call of
/// gpu_library(). By default, a kernel is loaded at its first launch, and loading may wait for
/// running kernels. A receive is such a kernel, and may itself wait for results that this rank has
/// yet to compute (CUDA C++ Programming Guide, "Lazy Loading", on concurrent execution).
void load_kernels_at_start();

/// Returns the GPU library, which the first call loads: the library that $LOCKSTEP_GPU_LIBRARY
/// names, or otherwise the library built from core/cuda. (Tests name a library that emulates CUDA.)
/// Throws UsageError with one line if Lockstep was built without CUDA, if the library cannot be
/// loaded, or if there is no GPU.
GpuLibrary& gpu_library();

}  // namespace lockstep
