#pragma once

#include "core/model/gpt.h"
#include "core/plan/flat_layout.h"

namespace lockstep {

// A model's values and gradients in the buckets of a FlatLayout of its units. `flat` is one bucket,
// (elements). All of this is for setting up: the modelled clock is not charged.

/// Makes the values of a bucket's parameters lie in `flat`, with the numbers that they have, and
/// gives the parameters' own storage back.
void move_values(Gpt& model, const FlatLayout::Bucket& bucket, View flat);
/// The same of their gradients.
void move_gradients(Gpt& model, const FlatLayout::Bucket& bucket, View flat);

/// The way back: the parameters get storage of their own with the numbers that they have, or, if
/// they lie nowhere, with zeros. For destructors: if there is no memory left, they stay without.
void return_values(Gpt& model, const FlatLayout::Bucket& bucket) noexcept;
void return_gradients(Gpt& model, const FlatLayout::Bucket& bucket) noexcept;

/// Makes the values of a bucket's parameters lie in `flat`, whatever stands there; nowhere, if
/// `flat` is empty. For parameters without storage of their own.
void put_values(Gpt& model, const FlatLayout::Bucket& bucket, View flat);
/// The same of their gradients.
void put_gradients(Gpt& model, const FlatLayout::Bucket& bucket, View flat);

/// `elements` zeros. Those that are made again in every step cost what writing them costs.
Tensor zeros(Device device, std::int64_t elements, MemoryCategory category,
             DType dtype = DType::f32);

/// The parts of a bucket's parameters that one rank owns, as parameters of their own, for an
/// optimizer to update: values and gradients are slices of the rank's shard of the bucket, which
/// must outlive them. `gradients` may be empty: of a frozen bucket, or if none are needed.
std::vector<Parameter> parts_of_shard(const Gpt& model, const FlatLayout& layout,
                                      const FlatLayout::Bucket& bucket, int rank, View values,
                                      View gradients);

}  // namespace lockstep
