#include "core/plan/flat_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <stdexcept>
#include <tuple>

#include "core/base/error.h"

namespace lockstep {

namespace {

std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

}  // namespace

FlatLayout::FlatLayout(const std::vector<StoredUnit>& units, int shards, std::int64_t bucket_bytes)
    : shards_(shards) {
  if (bucket_bytes < 1)
    throw UsageError(fmt::format(
        "--bucket {}: a bucket holds at least one unit of the model; give at least 1 byte",
        bucket_bytes));
  // A parameter used by two units (a tied table) belongs to the first of them, because its gradient
  // is complete only in that unit.
  std::set<int> placed;
  std::vector<std::vector<const StoredParameter*>> own;
  for (const StoredUnit& unit : units) {
    own.emplace_back();
    for (const StoredParameter& parameter : unit.parameters)
      if (placed.insert(parameter.order).second) own.back().push_back(&parameter);
  }

  bool open = false;  // the last bucket still accepts parameters
  for (std::size_t u = units.size(); u-- > 0;) {
    const auto continues = [&](const StoredParameter& parameter) {
      return open && !parameter.on_two_stages && buckets_.back().frozen == parameter.frozen &&
             (buckets_.back().slots.empty() || buckets_.back().dtype == parameter.dtype);
    };
    // A unit with a table that is on two stages shares its buckets with no other unit.
    const bool has_table = std::ranges::any_of(own[u], &StoredParameter::on_two_stages);
    if (has_table) open = false;
    // Group the parameters by kind, starting with the kind of the unit's first parameter, and keep
    // their order within a kind.
    const bool first_is_frozen = !own[u].empty() && own[u].front()->frozen;
    std::ranges::stable_sort(own[u], {}, [&](const StoredParameter* parameter) {
      return std::tuple{parameter->on_two_stages, parameter->frozen != first_is_frozen,
                        parameter->dtype};
    });
    if (own[u].empty() && !open) buckets_.emplace_back();
    for (const StoredParameter* parameter : own[u]) {
      if (!continues(*parameter)) buckets_.push_back({.frozen = parameter->frozen});
      open = true;
      Bucket& bucket = buckets_.back();
      if (bucket.units.empty() || bucket.units.back() != units[u].index)
        bucket.units.push_back(units[u].index);
      const Slot& slot = bucket.slots.emplace_back(Slot{*parameter, bucket.elements});
      bucket.dtype = parameter->dtype;
      bucket.used += slot.elements();
      bucket.elements = rounded_up(bucket.elements + slot.elements(), alignment);
    }
    if (own[u].empty()) buckets_.back().units.push_back(units[u].index);
    const Bucket& last = buckets_.back();
    open =
        !has_table && last.elements * static_cast<std::int64_t>(size_of(last.dtype)) < bucket_bytes;
  }
  std::int64_t all = 0;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    all += bucket.used;
    bucket.elements = rounded_up(bucket.elements, shards);
    for (const Slot& slot : bucket.slots) holding_.emplace_back(slot.parameter.order, b);
  }
  std::ranges::sort(holding_);
  if (all < shards)
    throw UsageError(fmt::format(
        "--ranks {}: the model has {} parameters to divide; use fewer ranks", shards, all));
}

std::vector<int> FlatLayout::units() const {
  std::set<int, std::greater<>> units;
  for (const Bucket& bucket : buckets_) units.insert(bucket.units.begin(), bucket.units.end());
  return {units.begin(), units.end()};
}

std::vector<std::size_t> FlatLayout::buckets_of(int unit) const {
  std::vector<std::size_t> found;
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    if (std::ranges::count(buckets_[b].units, unit) > 0) found.push_back(b);
  if (found.empty()) throw std::out_of_range(fmt::format("the layout has no unit {}", unit));
  return found;
}

std::size_t FlatLayout::bucket_holding(int order) const {
  const auto found =
      std::ranges::lower_bound(holding_, order, {}, &std::pair<int, std::size_t>::first);
  if (found == holding_.end() || found->first != order)
    throw std::out_of_range(fmt::format("the layout has no parameter of order {}", order));
  return found->second;
}

std::int64_t FlatLayout::used(bool with_frozen) const {
  std::int64_t sum = 0;
  for (const Bucket& bucket : buckets_)
    if (with_frozen || !bucket.frozen) sum += bucket.used;
  return sum;
}

std::vector<FlatLayout::Piece> FlatLayout::shard(const Bucket& bucket, int i) const {
  const std::int64_t size = bucket.elements / shards_;
  const std::int64_t begin = size * i;
  std::vector<Piece> pieces;
  for (std::size_t s = 0; s < bucket.slots.size(); ++s) {
    const Slot& slot = bucket.slots[s];
    const std::int64_t first = std::max(slot.offset, begin);
    const std::int64_t last = std::min(slot.offset + slot.elements(), begin + size);
    if (first < last) pieces.push_back({s, first - slot.offset, first - begin, last - first});
  }
  return pieces;
}

std::int64_t FlatLayout::owned(int i, bool with_frozen) const {
  std::int64_t sum = 0;
  for (const Bucket& bucket : buckets_)
    if (with_frozen || !bucket.frozen)
      for (const Piece& piece : shard(bucket, i)) sum += piece.elements;
  return sum;
}

std::int64_t FlatLayout::elements(bool with_frozen) const {
  std::int64_t sum = 0;
  for (const Bucket& bucket : buckets_)
    if (with_frozen || !bucket.frozen) sum += bucket.elements;
  return sum;
}

}  // namespace lockstep
