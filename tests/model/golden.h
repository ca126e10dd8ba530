#pragma once

#include "core/model/checkpoint/safetensors.h"
#include "tests/model/fixture.h"

namespace lockstep::test {

/// Files that scripts in this folder have written with PyTorch and transformers.
const std::string golden_folder = LOCKSTEP_SOURCE_DIR "/tests/golden/";

inline Floats read_golden(SafetensorsFile& file, const std::string& name, const Shape& shape) {
  Floats values(static_cast<std::size_t>(shape.elements()));
  file.read(name, {values.data(), shape});
  return values;
}

struct Distance {
  double parity = 0;    ///< parity_distance()
  double relative = 0;  ///< ‖a − b‖₂ / ‖b‖₂; stricter for small gradients

  void include(const Distance& other) {
    parity = std::max(parity, other.parity);
    relative = std::max(relative, other.relative);
  }
};

inline Distance distance(const Floats& a, const Floats& b) {
  return {parity_distance(a, b), relative_distance(a, b)};
}

}  // namespace lockstep::test
