#pragma once

#include <utility>

#include "core/device/gpu.h"
#include "core/time/time.h"

namespace lockstep {

/// A point on a stream: everything put on the stream before it is done at `time`, and, on a GPU,
/// when `mark` is passed. (By the wall clock of a GPU only the mark tells: the host is ahead.)
struct Event {
  Event(Picoseconds at = 0, MarkPtr on_gpu = nullptr) : time(at), mark(std::move(on_gpu)) {}

  Picoseconds time;
  MarkPtr mark;  ///< none on the CPU
};

}  // namespace lockstep
