#pragma once

#include "core/model/flat_layout.h"

namespace lockstep {

/// Makes the values of a bucket's parameters lie in `flat`, with the numbers that they have, and
/// gives the parameters' own storage back. For setting up: the modelled clock is not charged.
void move_values(Device device, const FlatLayout::Bucket& bucket, View flat);
/// The same of their gradients.
void move_gradients(Device device, const FlatLayout::Bucket& bucket, View flat);

/// Makes the values of a bucket's parameters lie in `flat`, whatever stands there; nowhere, where
/// `flat` is empty. For parameters without storage of their own.
void put_values(const FlatLayout::Bucket& bucket, View flat);
/// The same of their gradients.
void put_gradients(const FlatLayout::Bucket& bucket, View flat);

/// `elements` zeros. Those that are made again in every step cost what writing them costs.
Tensor zeros(Device device, std::int64_t elements, MemoryCategory category,
             DType dtype = DType::f32);

/// The parts of a bucket's parameters that one rank owns, as parameters of their own, for an
/// optimizer to update: values and gradients are slices of the rank's shard of the bucket, which
/// must outlive them. `gradients` may be empty: of a frozen bucket, or where none are needed.
std::vector<Parameter> parts_of_shard(const FlatLayout& layout, const FlatLayout::Bucket& bucket,
                                      int rank, View values, View gradients);

}  // namespace lockstep
