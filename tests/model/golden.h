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
  double parity = 0;  ///< ‖a − b‖₂ / max(‖b‖₂, √n · 0.02), core/README.md, "Parity"
  double relative = 0;  ///< ‖a − b‖₂ / ‖b‖₂; stricter for small gradients

  void include(const Distance& other) {
    parity = std::max(parity, other.parity);
    relative = std::max(relative, other.relative);
  }
};

inline Distance distance(const Floats& a, const Floats& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  const double floor = std::sqrt(static_cast<double>(b.size())) * 0.02;
  return {std::sqrt(difference) / std::max(std::sqrt(size), floor), std::sqrt(difference / size)};
}

}  // namespace lockstep::test
