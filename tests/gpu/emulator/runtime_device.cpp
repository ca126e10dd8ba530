// Device and error queries of CUDA's runtime.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "tests/gpu/emulator/machine.h"

namespace emulator {

namespace {

thread_local int current = 0;
thread_local cudaError_t last = cudaSuccess;

struct Words {
  cudaError_t error;
  const char* name;
  const char* text;
};
constexpr Words words[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled",
     "peer access is already enabled"},
    {cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
};

const Words* find(cudaError_t error) {
  for (const Words& entry : words)
    if (entry.error == error) return &entry;
  return nullptr;
}

int count() {
  return static_cast<int>(Machine::get().visible().size());
}

}  // namespace

int current_device() {
  return current;
}

cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last = error;
  return error;
}

std::string take_failure() {
  Machine& machine = Machine::get();
  const Machine::Lock lock = machine.lock();
  last = cudaSuccess;
  machine.device(current).error = cudaSuccess;
  return std::exchange(machine.device(current).words, "");
}

void must_be_allocated(const void* data, std::size_t bytes, const char* who) {
  const Machine::Lock lock = Machine::get().lock();
  Machine::get().memory().must_be_valid(data, bytes, who);
}

}  // namespace emulator

using emulator::Machine;
using emulator::noted;

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

const char* cudaGetErrorName(cudaError_t error) {
  const emulator::Words* entry = emulator::find(error);
  return entry != nullptr ? entry->name : "cudaErrorUnknown";
}

/// For a GPU's sticky error, the text includes the kernel's message.
const char* cudaGetErrorString(cudaError_t error) {
  const emulator::Words* entry = emulator::find(error);
  if (entry == nullptr) return "unknown error";
  Machine& machine = Machine::get();
  const Machine::Lock lock = machine.lock();
  if (error == cudaSuccess || emulator::current >= emulator::count() ||
      machine.device(emulator::current).error != error)
    return entry->text;
  thread_local std::string text;
  text = fmt::format("{}: {}", entry->text, machine.device(emulator::current).words);
  return text.c_str();
}

cudaError_t cudaPeekAtLastError() {
  Machine& machine = Machine::get();
  const Machine::Lock lock = machine.lock();
  if (emulator::current < emulator::count()) noted(machine.device(emulator::current).error);
  return emulator::last;
}
cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  emulator::last = cudaSuccess;
  return error;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = emulator::count();
  return *count == 0 ? noted(cudaErrorNoDevice) : cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= emulator::count()) return noted(cudaErrorInvalidDevice);
  emulator::current = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = emulator::current;
  return cudaSuccess;
}
cudaError_t cudaSetDeviceFlags(unsigned int) {
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= emulator::count()) return noted(cudaErrorInvalidDevice);
  *properties = {};
  std::strcpy(properties->name, "emulated GPU");
  properties->totalGlobalMem = Machine::get().memory().total();
  properties->sharedMemPerBlock = 48 * 1024;
  properties->sharedMemPerBlockOptin = 227 * 1024;
  properties->sharedMemPerMultiprocessor = 228 * 1024;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->major = 9;
  properties->minor = 0;
  properties->multiProcessorCount = 4;
  properties->l2CacheSize = 1 << 20;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device)) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = properties.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(properties.sharedMemPerBlock);
      break;
    case cudaDevAttrWarpSize:
      *value = properties.warpSize;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = properties.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(properties.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrMemoryPoolsSupported:
      *value = 1;
      break;
    default:
      return noted(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

/// Returns the same address in every process, so processes can detect that they share a GPU.
cudaError_t cudaDeviceGetPCIBusId(char* address, int length, int device) {
  if (device < 0 || device >= emulator::count()) return noted(cudaErrorInvalidDevice);
  const int index = Machine::get().visible()[static_cast<std::size_t>(device)];
  const std::string text = fmt::format("0000:{:02X}:00.0", index + 1);
  if (length <= static_cast<int>(text.size())) return noted(cudaErrorInvalidValue);
  std::memcpy(address, text.c_str(), text.size() + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer ? 1 : 0;
  return cudaSuccess;
}
