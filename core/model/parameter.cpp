#include "core/model/parameter.h"

#include "core/device/host_copy.h"
#include "core/model/philox.h"

namespace lockstep {

Parameter::Parameter(const ParameterSpec& spec, Slice slice_)
    : ParameterSpec(spec), slice(std::move(slice_)) {
  if (slice.whole().rank() == 0) slice = Slice{shape};
}

Parameter::Parameter(const ParameterSpec& spec, Slice slice_, Device device, std::uint64_t seed)
    : Parameter(spec, std::move(slice_)) {
  allocate_value(device);
  fill_initial(device, seed);
  if (frozen) return;
  allocate_gradient(device);
  fill_with_zeros(device, gradient);
}

void Parameter::allocate_value(Device device) {
  const MemoryLayer in_layer{device.memory, layer()};
  value_storage =
      Tensor{device.memory, slice.local(), MemoryCategory::parameters, dtype, role_of(*this)};
  value = value_storage;
}

void Parameter::allocate_gradient(Device device) {
  const MemoryLayer in_layer{device.memory, layer()};
  gradient_storage =
      Tensor{device.memory, slice.local(), MemoryCategory::gradients, dtype, role_of(*this)};
  gradient = gradient_storage;
}

void Parameter::fill_initial(Device device, std::uint64_t seed) const {
  if (!value) return;
  std::vector<float> values(static_cast<std::size_t>(slice.local().elements()));
  const RandomStream random{seed, Purpose::initial_values, static_cast<std::uint32_t>(order)};
  for (const auto& [in_whole, in_local, elements] : slice.runs()) {
    float* const run = values.data() + in_local;
    if (deviation != 0)
      fill_normal(View{run, {elements}}, random, mean, deviation, in_whole + elements, 0, in_whole);
    else
      std::fill_n(run, elements, mean);
  }
  from_host(device, values, value);
}

std::vector<float> Parameter::f32_values(Device device) const {
  return to_host(device, master ? master : value);
}

void fill_with_zeros(Device device, View view) {
  if (view) device.compute.kernels().fill(device.compute.queue(), view, 0);
}

}  // namespace lockstep
