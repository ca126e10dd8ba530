#pragma once

#include <string>

namespace lockstep::cuda {

/// One version of a kernel of type K, from a ladder that begins with the most obvious one.
template <class K>
struct Step {
  std::string name;
  K kernel;
  bool takes_f32 = true;
};

}  // namespace lockstep::cuda
