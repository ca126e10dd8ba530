#include "core/device/host_copy.h"

#include <stdexcept>

namespace lockstep {

std::vector<float> to_host(Device device, View from) {
  if (!from) return {};
  std::vector<float> values(static_cast<std::size_t>(from.elements()));
  if (from.dtype == DType::f32) {
    device.compute.read(from, values.data());
    return values;
  }
  std::vector<std::uint16_t> narrow(values.size());
  device.compute.read(from, narrow.data());
  cpu_kernels().convert({}, View{narrow.data(), {from.elements()}, from.dtype},
                        View{values.data(), {from.elements()}});
  return values;
}

void from_host(Device device, std::span<const float> values, View into) {
  if (!into) return;
  if (static_cast<std::int64_t>(values.size()) != into.elements())
    throw std::invalid_argument(
        "from_host: the number of values and the number of elements differ");
  if (into.dtype == DType::f32) return device.compute.write(values.data(), into);
  std::vector<std::uint16_t> narrow(values.size());
  cpu_kernels().convert({}, View{const_cast<float*>(values.data()), {into.elements()}},
                        View{narrow.data(), {into.elements()}, into.dtype});
  device.compute.write(narrow.data(), into);
}

}  // namespace lockstep
