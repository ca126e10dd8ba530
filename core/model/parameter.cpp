#include "core/model/parameter.h"

#include "core/device/host_copy.h"
#include "core/model/philox.h"

namespace lockstep {

Parameter::Parameter(const ParameterSpec& spec)
    : name(spec.name),
      shape(spec.shape),
      dtype(spec.dtype),
      decay(spec.decay),
      frozen(spec.frozen),
      order(spec.order),
      mean(spec.mean),
      deviation(spec.deviation) {}

Parameter::Parameter(const ParameterSpec& spec, Device device) : Parameter(spec) {
  value_storage = Tensor{device.memory, spec.shape, MemoryCategory::parameters, dtype};
  value = value_storage;
  if (frozen) return;
  gradient_storage = Tensor{device.memory, spec.shape, MemoryCategory::gradients, dtype};
  gradient = gradient_storage;
  fill_with_zeros(device, gradient);
}

Parameter::Parameter(const ParameterSpec& spec, Device device, std::uint64_t seed)
    : Parameter(spec, device) {
  initial_values(device, value, 0, seed);
}

void Parameter::initial_values(Device device, View into, std::int64_t begin,
                               std::uint64_t seed) const {
  if (!into) return;
  std::vector<float> values(static_cast<std::size_t>(into.elements()), mean);
  if (deviation != 0) {
    const RandomStream random{seed, Purpose::initial_values, static_cast<std::uint32_t>(order)};
    fill_normal(View{values.data(), {into.elements()}}, random, mean, deviation,
                begin + into.elements(), 0, begin);
  }
  from_host(device, values, into);
}

std::vector<float> Parameter::f32_values(Device device) const {
  return to_host(device, master ? master : value);
}

void fill_with_zeros(Device device, View view) {
  if (view) device.compute.kernels().fill(device.compute.queue(), view, 0);
}

}  // namespace lockstep
