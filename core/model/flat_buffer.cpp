#include "core/model/flat_buffer.h"

#include <exception>
#include <map>
#include <string>

#include "core/plan/stored_slices.h"

namespace lockstep {

namespace {

void copy(Device device, View from, View to) {
  if (from && to) device.compute.kernels().copy(device.compute.queue(), from, to);
}

View slot_in(View flat, const FlatLayout::Slot& slot) {
  if (flat.elements() == 0) return {};
  return flat.columns(slot.offset, slot.elements()).reshaped(slot.parameter.slice.local());
}

}  // namespace

void move_gradients(Gpt& model, const FlatLayout::Bucket& bucket, View flat) {
  for (const FlatLayout::Slot& slot : bucket.slots) {
    Parameter& parameter = model.parameter(slot.parameter.order);
    copy(model.device(), parameter.gradient, slot_in(flat, slot));
    parameter.gradient = slot_in(flat, slot);
    parameter.gradient_storage.reset();
  }
}

void return_gradients(Gpt& model, const FlatLayout::Bucket& bucket) noexcept {
  for (const FlatLayout::Slot& slot : bucket.slots) {
    Parameter& parameter = model.parameter(slot.parameter.order);
    if (parameter.frozen) continue;
    const View lent = std::exchange(parameter.gradient, {});
    try {
      parameter.allocate_gradient(model.device());
      copy(model.device(), lent, parameter.gradient);
    } catch (const std::exception&) {
    }
  }
}

void put_values(Gpt& model, const FlatLayout::Bucket& bucket, View flat) {
  for (const FlatLayout::Slot& slot : bucket.slots)
    model.parameter(slot.parameter.order).value = slot_in(flat, slot);
}

void make_values(Gpt& model, const FlatLayout::Bucket& bucket, View flat, std::uint64_t seed) {
  put_values(model, bucket, flat);
  for (const FlatLayout::Slot& slot : bucket.slots)
    model.parameter(slot.parameter.order).fill_initial(model.device(), seed);
}

void put_gradients(Gpt& model, const FlatLayout::Bucket& bucket, View flat) {
  for (const FlatLayout::Slot& slot : bucket.slots)
    model.parameter(slot.parameter.order).gradient = slot_in(flat, slot);
}

void record_whole_values(Gpt& model, const FlatLayout::Bucket& bucket, bool whole) {
  std::map<std::string, std::int64_t> bytes;  // by module
  for (const FlatLayout::Slot& slot : bucket.slots)
    bytes[module_of(model.parameter(slot.parameter.order).name)] +=
        whole ? slot.elements() * static_cast<std::int64_t>(size_of(bucket.dtype)) : 0;
  const Stream& compute = model.device().compute;
  compute.trace().counter(whole_parameters_counter, -1, {bytes.begin(), bytes.end()},
                          compute.now());
}

Tensor zeros(Device device, std::int64_t elements, MemoryCategory category, DType dtype,
             const char* kind) {
  Tensor tensor{device.memory, {elements}, category, dtype, kind};
  device.compute.launch(Span{.name = "zeros"}, {.bytes = static_cast<double>(tensor.bytes())},
                        [&](const Kernels& k, Queue q) { k.fill(q, tensor, 0); });
  return tensor;
}

std::vector<Parameter> parts_of_shard(const Gpt& model, const FlatLayout& layout,
                                      const FlatLayout::Bucket& bucket, int rank, View values,
                                      View gradients) {
  std::vector<Parameter> parts;
  for (const FlatLayout::Piece& piece : layout.shard(bucket, rank)) {
    const int order = bucket.slots[piece.slot].parameter.order;
    Parameter part{model.parameter(order), FlatLayout::slice(bucket, piece)};
    part.value = values.columns(piece.in_shard, piece.elements);
    if (gradients.elements() > 0) part.gradient = gradients.columns(piece.in_shard, piece.elements);
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace lockstep
