#pragma once

#include "core/model/gpt.h"
#include "core/plan/flat_layout.h"

namespace lockstep {

// These functions place a model's values and gradients in the buckets of a FlatLayout of its units.
// `flat` holds one bucket, (elements). Only zeros() charges the modelled clock.

/// Moves the gradients of a bucket's parameters into `flat` and frees their own storage.
void move_gradients(Gpt& model, const FlatLayout::Bucket& bucket, View flat);
/// Moves the gradients back into the parameters' own storage. Meant for destructors: on failure it
/// does not throw, but leaves the parameters without storage.
void return_gradients(Gpt& model, const FlatLayout::Bucket& bucket) noexcept;

/// Points the values of a bucket's parameters into `flat` without copying; if `flat` is empty,
/// clears the Views. The parameters must have no storage of their own.
void put_values(Gpt& model, const FlatLayout::Bucket& bucket, View flat);
/// Does the same as put_values, and fills `flat` with the initial values, which depend only on
/// `seed`.
void make_values(Gpt& model, const FlatLayout::Bucket& bucket, View flat, std::uint64_t seed);
/// Points the gradients of a bucket's parameters into `flat`, as put_values does for the values.
void put_gradients(Gpt& model, const FlatLayout::Bucket& bucket, View flat);

/// Records in the trace that from now on the rank holds all values of a bucket or, if not `whole`,
/// only those of its own shard.
void record_whole_values(Gpt& model, const FlatLayout::Bucket& bucket, bool whole);

/// Returns `elements` zeros. Charges the modelled clock for writing them. `kind` names them in
/// memory reports (MemoryParts).
Tensor zeros(Device device, std::int64_t elements, MemoryCategory category,
             DType dtype = DType::f32, const char* kind = "buckets");

/// Returns the parts of a bucket's parameters that one rank owns, as Parameters for an optimizer to
/// update. Their values and gradients are slices of `values` and `gradients`, which hold the rank's
/// shard of the bucket and must outlive the parts. `gradients` may be empty if the bucket is frozen
/// or no gradients are needed.
std::vector<Parameter> parts_of_shard(const Gpt& model, const FlatLayout& layout,
                                      const FlatLayout::Bucket& bucket, int rank, View values,
                                      View gradients);

}  // namespace lockstep
