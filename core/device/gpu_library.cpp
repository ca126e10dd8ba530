#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "core/base/error.h"
#include "core/device/gpu.h"

namespace lockstep {

namespace {

using MakeLibrary = GpuLibrary*();
constexpr const char* symbol = "lockstep_gpu_library";

/// Returns the library's path, from the environment or else from the build; "" if neither specifies
/// one.
std::string path_of_library() {
  if (const char* path = std::getenv("LOCKSTEP_GPU_LIBRARY")) return path;
#ifdef LOCKSTEP_CUDA_LIBRARY
  return LOCKSTEP_CUDA_LIBRARY;
#else
  return {};
#endif
}

constexpr int keep = 0;  // a setting that the user has made

/// Makes settings that CUDA reads when it starts.
void prepare_environment() {
  // Streams share this many hardware queues, 8 by default. In a shared queue, a receive that waits
  // holds up the send behind it.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", keep);
}

/// Throws UsageError if no usable library is found.
GpuLibrary& load() {
  const std::string path = path_of_library();
  if (path.empty())
    throw UsageError(
        "--device cuda: this build has no CUDA; './lockstep lesson N --device cuda' builds with "
        "CUDA "
        "if the CUDA Toolkit (12 or later) is installed; or leave the flag out");
  prepare_environment();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw UsageError(
        fmt::format("--device cuda: can't load Lockstep's GPU library ({}); rebuild, or leave the "
                    "flag out",
                    dlerror()));
  auto* make = reinterpret_cast<MakeLibrary*>(dlsym(library, symbol));
  if (make == nullptr)
    throw UsageError(fmt::format("--device cuda: {} is not a GPU library of Lockstep", path));
  std::string problem;
  try {
    GpuLibrary& loaded = *make();
    if (!loaded.gpus().empty()) return loaded;
    problem = "there is no GPU here";
  } catch (const UsageError&) {
    throw;
  } catch (const std::exception& error) {
    problem = error.what();
  }
  throw UsageError(
      fmt::format("--device cuda: {}; leave the flag out to train on the CPU", problem));
}

}  // namespace

void load_kernels_at_start() {
  ::setenv("CUDA_MODULE_LOADING", "EAGER", keep);
}

GpuLibrary& gpu_library() {
  // Never unloaded, because CUDA does not unload cleanly.
  static GpuLibrary& library = load();
  return library;
}

}  // namespace lockstep
