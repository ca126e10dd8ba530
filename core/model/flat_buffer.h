#pragma once

#include "core/model/gpt.h"
#include "core/plan/flat_layout.h"

namespace lockstep {

// A model's values and gradients in the buckets of a FlatLayout of its units. `flat` is one bucket,
// (elements). All of this is for setting up: the modelled clock is not charged.

/// Moves the values of a bucket's parameters into `flat` and frees their own storage.
void move_values(Gpt& model, const FlatLayout::Bucket& bucket, View flat);
/// The same of their gradients.
void move_gradients(Gpt& model, const FlatLayout::Bucket& bucket, View flat);

/// Moves the values back into storage of the parameters' own, or fills that with zeros if they have
/// no values. For destructors: on failure the parameters stay without storage.
void return_values(Gpt& model, const FlatLayout::Bucket& bucket) noexcept;
void return_gradients(Gpt& model, const FlatLayout::Bucket& bucket) noexcept;

/// Points the values of a bucket's parameters into `flat` without copying; an empty `flat` clears
/// them. For parameters without storage of their own.
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
