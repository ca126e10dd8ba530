#include "core/model/parameter.h"

#include <algorithm>

#include "core/model/philox.h"

namespace lockstep {

Parameter::Parameter(const ParameterSpec& spec, Device device)
    : name(spec.name),
      shape(spec.shape),
      decay(spec.decay),
      order(spec.order),
      value_storage(device.memory, spec.shape, MemoryCategory::parameters),
      gradient_storage(device.memory, spec.shape, MemoryCategory::gradients) {
  value = value_storage;
  gradient = gradient_storage;
  fill_with_zeros(device, gradient);
}

Parameter::Parameter(const ParameterSpec& spec, Device device, std::uint64_t seed)
    : Parameter(spec, device) {
  if (!value) return;
  if (spec.deviation == 0) {
    std::fill_n(value.f32(), value.elements(), spec.mean);
  } else {
    const RandomStream random{seed, Purpose::initial_values,
                              static_cast<std::uint32_t>(spec.order)};
    fill_normal(value, random, spec.mean, spec.deviation, spec.shape.last());
  }
}

void fill_with_zeros(Device device, View view) {
  if (view) device.compute.kernels().fill(Queue{}, view, 0);
}

}  // namespace lockstep
