#pragma once

#include <utility>

#include "core/device/gpu.h"
#include "core/time/time.h"

namespace lockstep {

/// A point on a stream. All work launched before this point is done at `time` on the stream's clock
/// and, on a GPU, once `mark` is passed. (On a GPU with the wall clock only `mark` is meaningful,
/// because the host runs ahead.)
struct Event {
  Event(Picoseconds at = 0, MarkPtr on_gpu = nullptr) : time(at), mark(std::move(on_gpu)) {}

  Picoseconds time;
  MarkPtr mark;  ///< null on the CPU
};

}  // namespace lockstep
