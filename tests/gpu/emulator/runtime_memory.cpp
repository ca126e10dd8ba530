// CUDA's memory: stream-ordered allocation, pinned memory, copies.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/gpu/emulator/machine.h"

using emulator::current_device;
using emulator::Machine;
using emulator::Memory;
using emulator::noted;
using emulator::Stream;
using emulator::Where;

namespace {

std::uintptr_t id_of(const Stream& stream) {
  return stream.id != 0 ? stream.id : static_cast<std::uintptr_t>(stream.device) + 1;
}

int device_of(cudaMemPool_t pool) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(pool)) - 1;
}

/// Mapping memory may wait for the kernels of NCCL that run on any of the process's GPUs (NCCL
/// issue 787). The emulator waits only with $LOCKSTEP_EMULATED_MAPPING.
void wait_for_communication(Machine::Lock& lock) {
  static const bool waits = std::getenv("LOCKSTEP_EMULATED_MAPPING") != nullptr;
  Machine& machine = Machine::get();
  if (!waits) return;
  machine.drive(lock, [&] {
    for (std::size_t gpu = 0; gpu < machine.visible().size(); ++gpu)
      if (machine.communicates(static_cast<int>(gpu))) return false;
    return true;
  });
}

/// Ends the process unless the GPU may access the memory.
void must_be_reachable(const Memory& memory, const void* data, int device) {
  const int owner = memory.device_of(data);
  if (owner >= 0 && owner != device && !memory.is_open_to_peers(owner))
    emulator::give_up("a copy from or to memory of another GPU, whose pool gives no access");
}

/// Rows of bytes, as in CUDA's two-dimensional copies.
struct Rows {
  std::byte* to;
  std::size_t to_pitch;
  const std::byte* from;
  std::size_t from_pitch;
  std::size_t width;
  std::size_t height;

  void copy() const {
    for (std::size_t row = 0; row < height; ++row)
      std::memmove(to + row * to_pitch, from + row * from_pitch, width);
  }
};

bool direction_fits(cudaMemcpyKind kind, Where to, Where from) {
  const bool to_gpu = to == Where::gpu;
  const bool from_gpu = from == Where::gpu;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_gpu && !from_gpu;
    case cudaMemcpyHostToDevice:
      return to_gpu && !from_gpu;
    case cudaMemcpyDeviceToHost:
      return !to_gpu && from_gpu;
    case cudaMemcpyDeviceToDevice:
      return to_gpu && from_gpu;
    case cudaMemcpyDefault:
      break;
  }
  return true;
}

/// Reads pageable memory during the call, and all other memory when the stream reaches the copy.
/// The call waits for copies into pageable memory and for host-to-host copies.
cudaError_t copy_rows(Rows rows, cudaMemcpyKind kind, cudaStream_t handle) {
  Machine& machine = Machine::get();
  bool waits = false;
  {
    Machine::Lock lock = machine.lock();
    Stream* stream = machine.find(handle, current_device());
    if (stream == nullptr) return noted(cudaErrorInvalidResourceHandle);
    if (const cudaError_t error = machine.device(stream->device).error) return noted(error);
    if (rows.width == 0 || rows.height == 0) return cudaSuccess;
    if (rows.to == nullptr || rows.from == nullptr) return noted(cudaErrorInvalidValue);
    const Where to = machine.memory().where(rows.to);
    const Where from = machine.memory().where(rows.from);
    if (!direction_fits(kind, to, from)) return noted(cudaErrorInvalidMemcpyDirection);
    must_be_reachable(machine.memory(), rows.to, stream->device);
    must_be_reachable(machine.memory(), rows.from, stream->device);
    waits = to == Where::pageable || (to != Where::gpu && from != Where::gpu);

    auto staged = std::make_shared<std::vector<std::byte>>();
    if (from == Where::pageable && !waits) {
      staged->resize(rows.width * rows.height);
      Rows{staged->data(), rows.width, rows.from, rows.from_pitch, rows.width, rows.height}.copy();
      rows.from = staged->data();
      rows.from_pitch = rows.width;
    }
    const auto run = [rows, staged, from, to, &machine] {
      {
        const Machine::Lock check = machine.lock();
        const std::size_t height = rows.height - 1;
        if (from != Where::pageable && machine.memory().where(rows.from) != from)
          emulator::give_up("a copy from pinned memory that was released before its turn came");
        if (to != Where::pageable && machine.memory().where(rows.to) != to)
          emulator::give_up("a copy to pinned memory that was released before its turn came");
        machine.memory().must_be_valid(rows.from, height * rows.from_pitch + rows.width,
                                       "a copy from");
        machine.memory().must_be_valid(rows.to, height * rows.to_pitch + rows.width, "a copy to");
      }
      rows.copy();
    };
    const bool from_host = from != Where::gpu, to_host = to != Where::gpu;
    emulator::Counts& counts = machine.counts();
    ++(from_host || to_host ? counts.host_copies : counts.device_copies);
    if (to == Where::pageable || from == Where::pageable) ++counts.pageable_copies;
    machine.put(lock, *stream, {.name = "copy", .run = run});
  }
  return waits ? cudaStreamSynchronize(handle) : cudaSuccess;
}

}  // namespace

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, bytes == 0 ? 0 : 1, kind, stream);
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return noted(cudaErrorInvalidValue);
  return copy_rows({static_cast<std::byte*>(to), to_pitch, static_cast<const std::byte*>(from),
                    from_pitch, width, height},
                   kind, stream);
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return error != cudaSuccess ? error : cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t handle) {
  Machine& machine = Machine::get();
  Machine::Lock lock = machine.lock();
  Stream* stream = machine.find(handle, current_device());
  if (stream == nullptr) return noted(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = machine.device(stream->device).error) return noted(error);
  if (bytes == 0) return cudaSuccess;
  if (machine.memory().where(data) == Where::pageable) return noted(cudaErrorInvalidValue);
  ++machine.counts().memsets;
  machine.put(lock, *stream, {.name = "memset", .run = [=] {
                                emulator::must_be_allocated(data, bytes, "a memset");
                                std::memset(data, value, bytes);
                              }});
  return cudaSuccess;
}

cudaError_t cudaMallocAsync(void** data, std::size_t bytes, cudaStream_t handle) {
  Machine& machine = Machine::get();
  Machine::Lock lock = machine.lock();
  Stream* stream = machine.find(handle, current_device());
  if (stream == nullptr) return noted(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = machine.device(stream->device).error) return noted(error);
  *data = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (machine.memory().must_grow(stream->device, bytes)) wait_for_communication(lock);
  std::uintptr_t earlier = 0;
  void* block = machine.memory().hand_out(stream->device, bytes, id_of(*stream), &earlier);
  if (block == nullptr) return noted(cudaErrorMemoryAllocation);
  *data = block;
  if (earlier != 0) machine.order_after(lock, *stream, machine.working(earlier));
  ++machine.counts().allocations;
  machine.put(lock, *stream, {.name = "allocation", .run = [block, bytes, &machine] {
                                const Machine::Lock inner = machine.lock();
                                machine.memory().become_valid(block, bytes);
                              }});
  return cudaSuccess;
}

cudaError_t cudaFreeAsync(void* data, cudaStream_t handle) {
  if (data == nullptr) return cudaSuccess;
  Machine& machine = Machine::get();
  Machine::Lock lock = machine.lock();
  Stream* stream = machine.find(handle, current_device());
  // CUDA does not define this case. The emulator ends the process, because callers tend to ignore
  // the result of a free.
  if (stream == nullptr)
    emulator::give_up(fmt::format("free of {} on a stream that was destroyed", data));
  if (const cudaError_t error = machine.device(stream->device).error) return noted(error);
  machine.memory().take_back(data, id_of(*stream));
  machine.put(lock, *stream, {.name = "free", .run = [data, &machine] {
                                const Machine::Lock inner = machine.lock();
                                machine.memory().become_free(data);
                              }});
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  Machine& machine = Machine::get();
  const Machine::Lock lock = machine.lock();
  *data = bytes == 0 ? nullptr : machine.memory().hand_out(current_device(), bytes, 0);
  if (bytes == 0) return cudaSuccess;
  if (*data == nullptr) return noted(cudaErrorMemoryAllocation);
  ++machine.counts().allocations;
  machine.memory().allow_access(true);
  machine.memory().become_valid(*data, bytes);
  return cudaSuccess;
}

/// First waits for all work on the GPU, as CUDA does.
cudaError_t cudaFree(void* data) {
  if (data == nullptr) return cudaSuccess;
  if (const cudaError_t error = cudaDeviceSynchronize()) return error;
  Machine& machine = Machine::get();
  const Machine::Lock lock = machine.lock();
  machine.memory().take_back(data, 0);
  machine.memory().allow_access(true);
  machine.memory().become_free(data);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned int) {
  Machine& machine = Machine::get();
  Machine::Lock lock = machine.lock();
  wait_for_communication(lock);
  *data = machine.memory().hand_out_pinned(bytes);
  return *data == nullptr ? noted(cudaErrorMemoryAllocation) : cudaSuccess;
}
/// Does not wait. A pending copy from or to this memory is a mistake, which is reported when the
/// stream reaches the copy.
cudaError_t cudaFreeHost(void* data) {
  if (data == nullptr) return cudaSuccess;
  Machine& machine = Machine::get();
  const Machine::Lock lock = machine.lock();
  machine.memory().take_back_pinned(data);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  Machine& machine = Machine::get();
  const Machine::Lock lock = machine.lock();
  *total = machine.memory().total();
  *free = *total - machine.memory().used(current_device());
  return cudaSuccess;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  *pool = reinterpret_cast<cudaMemPool_t>(static_cast<std::uintptr_t>(device) + 1);
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  Machine& machine = Machine::get();
  const Machine::Lock lock = machine.lock();
  Memory& memory = machine.memory();
  if (attribute == cudaMemPoolReuseAllowInternalDependencies)
    memory.allow_internal_dependencies(device_of(pool), *static_cast<int*>(value) != 0);
  if (attribute == cudaMemPoolAttrUsedMemHigh) memory.reset_most_used(device_of(pool));
  return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  Machine& machine = Machine::get();
  const Machine::Lock lock = machine.lock();
  if (attribute != cudaMemPoolAttrUsedMemHigh) return noted(cudaErrorInvalidValue);
  *static_cast<std::uint64_t*>(value) = machine.memory().most_used(device_of(pool));
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc*, std::size_t) {
  Machine& machine = Machine::get();
  const Machine::Lock lock = machine.lock();
  machine.memory().open_to_peers(device_of(pool));
  return cudaSuccess;
}
