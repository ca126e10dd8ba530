#pragma once

#include <algorithm>
#include <set>
#include <vector>

#include "core/model/philox.h"
#include "core/plan/flat_layout.h"
#include "core/plan/plan.h"

namespace lockstep::testing {

/// The initial values of a whole tensor, generated at once.
inline std::vector<float> whole_values(const ParameterSpec& spec, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(spec.shape.elements()), spec.mean);
  if (spec.deviation != 0)
    fill_normal(View{values.data(), {spec.shape.elements()}},
                {seed, Purpose::initial_values, static_cast<std::uint32_t>(spec.order)}, spec.mean,
                spec.deviation, spec.shape.elements());
  return values;
}

/// Copies a slice of a tensor; padding is zero.
inline std::vector<float> cut_of(const std::vector<float>& whole, const Slice& slice) {
  std::vector<float> values(static_cast<std::size_t>(slice.local().elements()));
  for (const auto& [in_whole, in_local, n] : slice.runs())
    std::copy_n(whole.begin() + in_whole, n, values.begin() + in_local);
  return values;
}

/// Returns whether the ranks of each dp group hold the same slices and so can share a layout.
inline bool can_shard(const Plan& plan) {
  return plan.mesh.size(Axis::ep) == 1;
}

/// The parameters that a rank stores: its slices or, if ZeRO can shard them, its shards.
inline std::vector<StoredParameter> stored_by(const Plan& plan, int rank, bool sharded) {
  std::vector<StoredParameter> stored;
  sharded = sharded && can_shard(plan);
  const Place place = plan.place(rank);
  for (const int stage : place.stages) {
    const std::vector<StoredUnit> units = plan.units(place, stage);
    if (!sharded) {
      std::set<int> seen;
      for (const StoredUnit& unit : units)
        for (const StoredParameter& parameter : unit.parameters)
          if (seen.insert(parameter.order).second) stored.push_back(parameter);
      continue;
    }
    const FlatLayout layout{units, place.size(Axis::dp),
                            static_cast<std::int64_t>(1 + 977 * (plan.seed % 3))};
    for (const FlatLayout::Bucket& bucket : layout.buckets())
      for (const FlatLayout::Piece& piece : layout.shard(bucket, place.coordinate(Axis::dp))) {
        StoredParameter part = bucket.slots[piece.slot].parameter;
        part.slice = FlatLayout::slice(bucket, piece);
        stored.push_back(std::move(part));
      }
  }
  return stored;
}

}  // namespace lockstep::testing
