// CUDA's streams and events. Calls that wait run the work on streams; queries run only a little of
// that work.
#include <fmt/format.h>

#include <set>

#include "tests/gpu/emulator/machine.h"

struct CUevent_st {
  int device = 0;
  bool timing = true;
  std::shared_ptr<emulator::Record> latest;  ///< null: never recorded, which counts as passed
};

namespace emulator {

namespace {

/// All events not yet destroyed. Use under the machine's lock.
std::set<cudaEvent_t>& events() {
  static auto& all = *new std::set<cudaEvent_t>;
  return all;
}
bool is_event(cudaEvent_t event) {
  return events().count(event) != 0;
}

/// Counts a wait for the record, unless the record has passed or a wait for it is already counted.
void count_wait(Record& record) {
  if (record.passed || record.counted) return;
  record.counted = true;
  ++Machine::get().counts().waits;
}

/// Drives the machine until the record has passed or its GPU has failed; returns the GPU's error.
cudaError_t wait_for(Machine::Lock& lock, const std::shared_ptr<Record>& record) {
  Device& device = Machine::get().device(record->device);
  count_wait(*record);
  Machine::get().drive(lock, [&] { return record->passed || device.error != cudaSuccess; });
  return noted(device.error);
}

cudaError_t synchronize(Machine::Lock& lock, Stream& stream) {
  auto end = std::make_shared<Record>();
  end->device = stream.device;
  end->counted = stream.works.empty();
  Machine::get().put(lock, stream, {.name = "end", .record = end});
  return wait_for(lock, end);
}

}  // namespace

cudaError_t enqueue(cudaStream_t handle, std::function<void()> run, Counted counted) {
  Machine& machine = Machine::get();
  Machine::Lock lock = machine.lock();
  Stream* stream = machine.find(handle, current_device());
  if (stream == nullptr || stream->device != current_device())
    return noted(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = machine.device(stream->device).error) return noted(error);
  const bool product = counted == Counted::product;
  ++(product ? machine.counts().products : machine.counts().kernels);
  machine.put(lock, *stream,
              {.name = product ? "matrix product" : "kernel", .run = std::move(run)});
  return cudaSuccess;
}

}  // namespace emulator

using emulator::current_device;
using emulator::Machine;
using emulator::noted;
using emulator::Record;
using emulator::Stream;

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int) {
  // Streams that synchronise with the default stream are not emulated.
  if (flags != cudaStreamNonBlocking) return noted(cudaErrorNotSupported);
  Machine& machine = Machine::get();
  const Machine::Lock lock = machine.lock();
  *stream = machine.make_stream(current_device());
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  Machine& machine = Machine::get();
  const Machine::Lock lock = machine.lock();
  if (handle == nullptr || !machine.destroy(handle)) return noted(cudaErrorInvalidResourceHandle);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  Machine& machine = Machine::get();
  Machine::Lock lock = machine.lock();
  Stream* stream = machine.find(handle, current_device());
  if (stream == nullptr) return noted(cudaErrorInvalidResourceHandle);
  return emulator::synchronize(lock, *stream);
}

cudaError_t cudaDeviceSynchronize() {
  Machine& machine = Machine::get();
  Machine::Lock lock = machine.lock();
  const int device = current_device();
  if (!machine.idle(device)) ++machine.counts().waits;
  machine.drive(
      lock, [&] { return machine.idle(device) || machine.device(device).error != cudaSuccess; });
  return noted(machine.device(device).error);
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  Machine& machine = Machine::get();
  Machine::Lock lock = machine.lock();
  Stream* stream = machine.find(handle, current_device());
  if (stream == nullptr) return noted(cudaErrorInvalidResourceHandle);
  machine.drive_a_little(lock);
  if (const cudaError_t error = machine.device(stream->device).error) return noted(error);
  return stream->works.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned int) {
  Machine& machine = Machine::get();
  Machine::Lock lock = machine.lock();
  Stream* stream = machine.find(handle, current_device());
  if (stream == nullptr || !emulator::is_event(event)) return noted(cudaErrorInvalidResourceHandle);
  if (event->latest) machine.put(lock, *stream, {.name = "wait", .wait = event->latest});
  return noted(machine.device(stream->device).error);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  Machine& machine = Machine::get();
  Machine::Lock lock = machine.lock();
  Stream* stream = machine.find(handle, current_device());
  if (stream == nullptr) return noted(cudaErrorInvalidResourceHandle);
  machine.put(lock, *stream, {.name = "host function", .run = [=] { function(argument); }});
  return noted(machine.device(stream->device).error);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  const Machine::Lock lock = Machine::get().lock();
  *event = new CUevent_st{.device = current_device(),
                          .timing = (flags & cudaEventDisableTiming) == 0,
                          .latest = nullptr};
  emulator::events().insert(*event);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Machine::Lock lock = Machine::get().lock();
  if (emulator::events().erase(event) == 0) return noted(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  Machine& machine = Machine::get();
  Machine::Lock lock = machine.lock();
  Stream* stream = machine.find(handle, current_device());
  if (stream == nullptr || !emulator::is_event(event) || event->device != stream->device)
    return noted(cudaErrorInvalidResourceHandle);
  event->latest = std::make_shared<Record>();
  event->latest->device = stream->device;
  event->latest->counted = stream->works.empty();
  machine.put(lock, *stream, {.name = "record", .record = event->latest});
  return noted(machine.device(stream->device).error);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  Machine& machine = Machine::get();
  Machine::Lock lock = machine.lock();
  if (!emulator::is_event(event)) return noted(cudaErrorInvalidResourceHandle);
  const std::shared_ptr<Record> record = event->latest;
  if (!record) return cudaSuccess;
  emulator::count_wait(*record);
  if (!record->passed) machine.drive_a_little(lock);
  if (const cudaError_t error = machine.device(record->device).error) return noted(error);
  return record->passed ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Machine::Lock lock = Machine::get().lock();
  if (!emulator::is_event(event)) return noted(cudaErrorInvalidResourceHandle);
  const std::shared_ptr<Record> record = event->latest;
  return record ? emulator::wait_for(lock, record) : cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const Machine::Lock lock = Machine::get().lock();
  for (cudaEvent_t event : {from, to})
    if (!emulator::is_event(event) || !event->latest || !event->timing ||
        event->device != from->device)
      return noted(cudaErrorInvalidResourceHandle);
  if (!from->latest->passed || !to->latest->passed) return noted(cudaErrorNotReady);
  using Milliseconds = std::chrono::duration<float, std::milli>;
  *milliseconds = Milliseconds{to->latest->when - from->latest->when}.count();
  return cudaSuccess;
}
