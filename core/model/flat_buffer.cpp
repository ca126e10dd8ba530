#include "core/model/flat_buffer.h"

#include <cstring>

namespace lockstep {

namespace {

void move(View& at, Tensor& storage, View into) {
  if (at.data != nullptr && into.data != nullptr) std::memcpy(into.data, at.data, into.bytes());
  at = into;
  storage.reset();
}

}  // namespace

void move_value(Parameter& parameter, View into) {
  move(parameter.value, parameter.value_storage, into);
}

void move_gradient(Parameter& parameter, View into) {
  move(parameter.gradient, parameter.gradient_storage, into);
}

Tensor bucket_storage(const FlatLayout::Bucket& bucket, Device device, MemoryCategory category) {
  Tensor storage{device.memory, {bucket.elements}, category};
  fill_with_zeros(device, storage);
  return storage;
}

View slot_in(View bucket, const FlatLayout::Slot& slot) {
  return bucket.columns(slot.offset, slot.parameter->shape.elements())
      .reshaped(slot.parameter->shape);
}

std::vector<Parameter> shard_parameters(const FlatLayout& layout, const FlatLayout::Bucket& bucket,
                                        int rank, View values, View gradients) {
  std::vector<Parameter> result;
  for (const FlatLayout::Piece& piece : layout.shard(bucket, rank)) {
    Parameter part;
    part.name = piece.parameter->name;
    part.shape = {piece.elements};
    part.value = values.columns(piece.in_shard, piece.elements);
    part.gradient = gradients.columns(piece.in_shard, piece.elements);
    part.decay = piece.parameter->decay;
    part.order = piece.parameter->order;
    result.push_back(std::move(part));
  }
  return result;
}

}  // namespace lockstep
