#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace lockstep {

/// A point on a queue of a GPU (a CUDA event): passed when everything put on the queue before it is
/// done. Shared by all who wait for it; may be dropped before it is passed.
class Mark {
 public:
  virtual ~Mark() = default;
};
using MarkPtr = std::shared_ptr<const Mark>;

/// What is known of a GPU without using it.
struct GpuInfo {
  std::string name;            ///< "NVIDIA H100 80GB HBM3"
  std::string address;         ///< on the PCI bus: the same for two processes that share the GPU
  int compute_capability = 0;  ///< 90 for 9.0
  int multiprocessors = 0;
  std::int64_t memory = 0;  ///< bytes
};

class GpuCommunicator;

/// What one rank uses of a GPU: memory, queues and marks on them, copies, kernels. Implemented over
/// CUDA in core/cuda, and found at run time (see GpuLibrary), so that nothing else of
/// Lockstep needs CUDA to be built or started. Every call is good from any of the rank's threads;
/// all throw std::runtime_error, which names the call, the GPU and what it said.
class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual int index() const = 0;
  virtual const GpuInfo& info() const = 0;
  /// This GPU's arithmetic; see kernels/kernels.h.
  virtual const Kernels& kernels() const = 0;

  // -- memory -------------------------------------------------------------------------------------
  /// In the order of `queue`, from the stream-ordered pool: uninitialised, 256-byte aligned. Throws
  /// std::bad_alloc where the GPU has no more.
  virtual void* allocate(std::size_t bytes, Queue queue) = 0;
  virtual void release(void* data, Queue queue) noexcept = 0;
  /// Host memory that the GPU can copy from and to while the host goes on (pinned).
  virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void release_pinned(void* data) noexcept = 0;
  /// What of the GPU's memory all its users together hold, by the device's own account.
  virtual std::int64_t memory_in_use() const = 0;

  // -- queues and marks ---------------------------------------------------------------------------
  /// A new queue. `urgent`: its kernels go before those of others that wait for a place.
  virtual Queue make_queue(bool urgent) = 0;
  /// When what is on it is done.
  virtual void drop_queue(Queue queue) noexcept = 0;
  virtual MarkPtr record(Queue queue) = 0;
  /// Nothing put on `queue` after this begins before `mark` is passed. The host goes on.
  virtual void wait(Queue queue, const Mark& mark) = 0;
  /// Whether the mark is passed. This is also where errors of earlier kernels show.
  virtual bool passed(const Mark& mark) = 0;
  /// From one mark to another on this GPU, both passed.
  virtual double milliseconds(const Mark& from, const Mark& to) = 0;

  /// Between this GPU, others and the host, in whichever direction the addresses say. From or to
  /// memory that is not pinned the host may wait; it reads what was copied only after a mark.
  virtual void copy(Queue queue, void* to, const void* from, std::size_t bytes) = 0;

  // -- profilers ----------------------------------------------------------------------------------
  /// An NVTX range of the calling thread, so that Nsight Systems shows the names our viewer shows.
  virtual void push_range(const char* name) = 0;
  virtual void pop_range() = 0;

  // -- collectives --------------------------------------------------------------------------------
  /// A communicator's id, 128 bytes, to be made by one rank and told to all.
  virtual std::vector<std::byte> make_communicator_id() = 0;
  /// The communicator of all `ranks` ranks, which call this at the same time, each with a GPU of
  /// its own.
  virtual std::unique_ptr<GpuCommunicator> join(const std::vector<std::byte>& id, int ranks,
                                                int rank) = 0;
};

/// The GPUs that this process sees, and how they are opened.
class GpuLibrary {
 public:
  virtual ~GpuLibrary() = default;
  /// In the order of their index.
  virtual const std::vector<GpuInfo>& gpus() const = 0;
  /// For one rank. Several ranks may open the same. `allow_tf32`: products of f32 may round what
  /// goes in to 10 bits of fraction, for tensor cores.
  virtual std::unique_ptr<Gpu> open(int index, bool allow_tf32) = 0;
  std::unique_ptr<Gpu> open(int index) { return open(index, false); }
  /// Whether there is NCCL, so that Gpu::join can be called.
  virtual bool has_nccl() const = 0;
  /// "CUDA 13.0, driver 13.0, NCCL 2.28.3".
  virtual std::string versions() const = 0;
};

/// CUDA's, loaded at the first call (or what $LOCKSTEP_GPU_LIBRARY names: tests have one that
/// emulates CUDA). Throws UsageError, one line, where Lockstep was built without CUDA, the library
/// can't be loaded, or there is no GPU.
GpuLibrary& gpu_library();

}  // namespace lockstep
