#include "core/model/flat_buffer.h"

namespace lockstep {

namespace {

void move(Device device, View& at, Tensor& storage, View into) {
  if (at && into) device.compute.kernels().copy(device.compute.queue(), at, into);
  at = into;
  storage.reset();
}

View slot_in(View flat, const FlatLayout::Slot& slot) {
  if (flat.elements() == 0) return {};
  const Shape& shape = slot.parameter->shape;
  return flat.columns(slot.offset, shape.elements()).reshaped(shape);
}

}  // namespace

void move_values(Device device, const FlatLayout::Bucket& bucket, View flat) {
  for (const FlatLayout::Slot& slot : bucket.slots)
    move(device, slot.parameter->value, slot.parameter->value_storage, slot_in(flat, slot));
}

void move_gradients(Device device, const FlatLayout::Bucket& bucket, View flat) {
  for (const FlatLayout::Slot& slot : bucket.slots)
    move(device, slot.parameter->gradient, slot.parameter->gradient_storage, slot_in(flat, slot));
}

void put_values(const FlatLayout::Bucket& bucket, View flat) {
  for (const FlatLayout::Slot& slot : bucket.slots) slot.parameter->value = slot_in(flat, slot);
}

void put_gradients(const FlatLayout::Bucket& bucket, View flat) {
  for (const FlatLayout::Slot& slot : bucket.slots) slot.parameter->gradient = slot_in(flat, slot);
}

Tensor zeros(Device device, std::int64_t elements, MemoryCategory category, DType dtype) {
  Tensor tensor{device.memory, {elements}, category, dtype};
  device.compute.launch(Span{.name = "zeros"}, {.bytes = static_cast<double>(tensor.bytes())},
                        [&](const Kernels& k, Queue q) { k.fill(q, tensor, 0); });
  return tensor;
}

std::vector<Parameter> parts_of_shard(const FlatLayout& layout, const FlatLayout::Bucket& bucket,
                                      int rank, View values, View gradients) {
  std::vector<Parameter> parts;
  for (const FlatLayout::Piece& piece : layout.shard(bucket, rank)) {
    const Parameter& whole = *piece.parameter;
    Parameter part;
    part.name = whole.name;
    part.shape = {piece.elements};
    part.value = values.columns(piece.in_shard, piece.elements);
    if (gradients.elements() > 0) part.gradient = gradients.columns(piece.in_shard, piece.elements);
    part.dtype = whole.dtype;
    part.decay = whole.decay;
    part.frozen = whole.frozen;
    part.order = whole.order;
    part.first = piece.in_parameter;
    part.mean = whole.mean;
    part.deviation = whole.deviation;
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace lockstep
