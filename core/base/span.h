#pragma once

#include <cstdint>

#include "core/base/category.h"

namespace lockstep {

/// A span's name and attributes: plain data that is cheap to pass. Strings must live as long as the
/// trace (so they are literals, or come from Recorder::keep); -1 means "does not apply". The trace
/// shows pipeline actions (forward, backward... with a stage) as PP:{stage}{F|B|I|W}{microbatch},
/// regardless of `name`.
struct Span {
  const char* name = "";
  Category category = Category::kernel;
  int step = -1;  ///< training step; -1: the recorder's current step. A worker sets the step in
                  ///< which its work was issued
  int stage = -1;
  int microbatch = -1;
  int layer = -1;
  int peer = -1;
  std::int64_t bytes = -1;
  std::int64_t sequence = -1;
  const char* group = nullptr;
  int group_size = -1;
  const char* algorithm = nullptr;
};

}  // namespace lockstep
