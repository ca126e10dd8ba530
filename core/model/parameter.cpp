#include "core/model/parameter.h"

#include <algorithm>

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
  initial_values(value, 0, seed);
}

void Parameter::initial_values(View into, std::int64_t begin, std::uint64_t seed) const {
  if (!into) return;
  if (is_narrow(into.dtype)) {
    std::vector<float> wide(static_cast<std::size_t>(into.elements()));
    const View f32{wide.data(), into.shape};
    initial_values(f32, begin, seed);
    cpu_kernels().convert(Queue{}, f32, into);
    return;
  }
  if (deviation == 0) {
    std::fill_n(into.f32(), into.elements(), mean);
  } else {
    const RandomStream random{seed, Purpose::initial_values, static_cast<std::uint32_t>(order)};
    const View flat = into.reshaped({into.elements()});
    fill_normal(flat, random, mean, deviation, begin + flat.elements(), 0, begin);
  }
}

std::vector<float> Parameter::f32_values() const {
  const View from = master ? master : value;
  std::vector<float> values(from ? static_cast<std::size_t>(from.elements()) : 0);
  if (from) cpu_kernels().convert(Queue{}, from, View{values.data(), from.shape});
  return values;
}

void fill_with_zeros(Device device, View view) {
  if (view) device.compute.kernels().fill(Queue{}, view, 0);
}

}  // namespace lockstep
