#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace lockstep {

/// A point on a GPU queue (a CUDA event): passed when everything enqueued before it is done. All
/// waiters share it; it may be dropped before it is passed.
class Mark {
 public:
  virtual ~Mark() = default;
};
using MarkPtr = std::shared_ptr<const Mark>;

/// Properties of a GPU that are known without using it.
struct GpuInfo {
  std::string name;            ///< "NVIDIA H100 80GB HBM3"
  std::string address;         ///< on the PCI bus: the same for two processes that share the GPU
  int compute_capability = 0;  ///< 90 for 9.0
  int multiprocessors = 0;
  std::int64_t memory = 0;  ///< bytes
};

class GpuCommunicator;

/// One rank's interface to a GPU: memory, queues and marks on them, copies, kernels. core/cuda
/// implements it with CUDA, and GpuLibrary loads that at run time, so that nothing else in Lockstep
/// needs CUDA to build or start. Any of the rank's threads may make any call; all throw
/// std::runtime_error with the call, the GPU and CUDA's error.
class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual int index() const = 0;
  virtual const GpuInfo& info() const = 0;
  /// This GPU's kernels; see kernels/kernels.h.
  virtual const Kernels& kernels() const = 0;

  // -- memory -------------------------------------------------------------------------------------
  /// Allocates from the stream-ordered pool, in the order of `queue`: uninitialized, 256-byte
  /// aligned. Throws std::bad_alloc if the GPU is full.
  virtual void* allocate(std::size_t bytes, Queue queue) = 0;
  virtual void release(void* data, Queue queue) noexcept = 0;
  /// Pinned host memory, which the GPU can copy from and to while the host continues.
  virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void release_pinned(void* data) noexcept = 0;
  /// The GPU memory in use by all processes together, as the device reports it.
  virtual std::int64_t memory_in_use() const = 0;

  // -- queues and marks ---------------------------------------------------------------------------
  /// A new queue. `urgent`: its pending kernels are scheduled before other queues'.
  virtual Queue make_queue(bool urgent) = 0;
  /// Destroys the queue once its work is done.
  virtual void drop_queue(Queue queue) noexcept = 0;
  virtual MarkPtr record(Queue queue) = 0;
  /// Work enqueued on `queue` after this call starts only after `mark` is passed. The host
  /// continues.
  virtual void wait(Queue queue, const Mark& mark) = 0;
  /// Whether the mark is passed. Errors of earlier kernels are reported here too.
  virtual bool passed(const Mark& mark) = 0;
  /// The time between two marks on this GPU, both passed.
  virtual double milliseconds(const Mark& from, const Mark& to) = 0;

  /// Copies between this GPU, other GPUs and the host; the addresses determine the direction. The
  /// host may block if host memory is not pinned; it may read the result only after a mark.
  virtual void copy(Queue queue, void* to, const void* from, std::size_t bytes) = 0;

  // -- profilers ----------------------------------------------------------------------------------
  /// An NVTX range on the calling thread, so that Nsight Systems shows the same names as our
  /// viewer.
  virtual void push_range(const char* name) = 0;
  virtual void pop_range() = 0;

  // -- collectives --------------------------------------------------------------------------------
  /// A communicator's id, 128 bytes; one rank creates it and sends it to the others.
  virtual std::vector<std::byte> make_communicator_id() = 0;
  /// Joins the communicator of all `ranks` ranks. Collective: all of them call it at the same time,
  /// each with its own GPU.
  virtual std::unique_ptr<GpuCommunicator> join(const std::vector<std::byte>& id, int ranks,
                                                int rank) = 0;
};

/// The GPUs that this process sees, and the means to open them.
class GpuLibrary {
 public:
  virtual ~GpuLibrary() = default;
  /// In order of their index.
  virtual const std::vector<GpuInfo>& gpus() const = 0;
  /// Opens a GPU for one rank. Several ranks may open the same one. `allow_tf32`: matrix products
  /// of f32 may round their inputs to 10 bits of mantissa, for tensor cores.
  virtual std::unique_ptr<Gpu> open(int index, bool allow_tf32) = 0;
  std::unique_ptr<Gpu> open(int index) { return open(index, false); }
  /// Whether NCCL is available, so that Gpu::join can be called.
  virtual bool has_nccl() const = 0;
  /// "CUDA 13.0, driver 13.0, NCCL 2.28.3".
  virtual std::string versions() const = 0;
};

/// CUDA's library, loaded at the first call; or the one that $LOCKSTEP_GPU_LIBRARY names (tests use
/// one that emulates CUDA). Throws UsageError with one line if Lockstep was built without CUDA, if
/// the library cannot be loaded, or if there is no GPU.
GpuLibrary& gpu_library();

}  // namespace lockstep
