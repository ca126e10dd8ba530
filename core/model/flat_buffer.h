#pragma once

#include "core/model/flat_layout.h"

namespace lockstep {

/// Makes `parameter`'s value lie in `into` (of as many elements), with the numbers that it has, and
/// gives its own storage back.
void move_value(Parameter& parameter, View into);
/// The same of its gradient.
void move_gradient(Parameter& parameter, View into);

/// Storage for one bucket of a FlatLayout, zeros at first.
Tensor bucket_storage(const FlatLayout::Bucket& bucket, Device device, MemoryCategory category);
/// Where a parameter lies in its bucket's storage, in its own shape.
View slot_in(View bucket, const FlatLayout::Slot& slot);

/// The parts of a bucket's parameters that one rank owns, as parameters of their own, for an
/// optimizer to update: values and gradients are slices of the shard's, which must outlive them.
std::vector<Parameter> shard_parameters(const FlatLayout& layout, const FlatLayout::Bucket& bucket,
                                        int rank, View values, View gradients);

}  // namespace lockstep
