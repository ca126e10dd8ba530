#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/plan.h"

namespace lockstep {

/// The layout of a rank's parameters, or of their gradients, in flat buffers: buckets of whole
/// units, in the order in which the backward pass completes the units' gradients (the head first).
/// Each bucket is one message, divided into as many equal shards as there are ranks.
///
/// A ring sums each chunk in an order that depends on the chunk's position. Data parallelism and
/// all ZeRO stages use this one layout, so their sums are bitwise identical.
class FlatLayout {
 public:
  /// Alignment of parameters in elements: 256 bytes in f32, 128 bytes in 16-bit types.
  static constexpr std::int64_t alignment = 64;

  struct Slot {
    StoredParameter parameter;
    std::int64_t offset = 0;  ///< in the bucket, in elements
    std::int64_t elements() const { return parameter.slice.local().elements(); }
  };
  struct Bucket {
    std::vector<int> units;  ///< units with parameters in this bucket, descending
    std::vector<Slot> slots;
    std::int64_t elements = 0;  ///< including padding; a multiple of the number of shards
    std::int64_t used = 0;      ///< excluding padding
    DType dtype = DType::f32;   ///< the type of all parameters in the bucket
    bool frozen = false;        ///< whether the parameters are frozen: no gradients, no updates

    /// The backward pass first uses the bucket in first_unit() and last uses it in last_unit(); the
    /// forward pass visits the units in the opposite order.
    int first_unit() const { return units.front(); }
    int last_unit() const { return units.back(); }
  };
  /// The part of one parameter in one shard.
  struct Piece {
    std::size_t slot = 0;           ///< index in Bucket::slots
    std::int64_t in_parameter = 0;  ///< offset in the parameter's storage, in elements
    std::int64_t in_shard = 0;      ///< offset in the shard, in elements
    std::int64_t elements = 0;
  };

  /// Lays out the units of one stage (Plan::units, Gpt::stored_units), and so chooses the
  /// boundaries of the buckets. A bucket ends with the unit that brings it to at least
  /// `bucket_bytes`; a value of 1 gives each unit a separate bucket. A tied table belongs to the
  /// embedding if the embedding is on the same stage. A unit's parameters go to different buckets
  /// if they differ in dtype or if only some of them are frozen. A tied table that is on two stages
  /// has a separate bucket on each of them, so that the two stages divide it into the same shards.
  /// Throws UsageError if bucket_bytes < 1, or if there are more shards than elements.
  FlatLayout(const std::vector<StoredUnit>& units, int shards, std::int64_t bucket_bytes);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  int shards() const { return shards_; }
  /// Returns the units in the order of the backward pass, descending.
  std::vector<int> units() const;
  /// Returns the indices of the buckets that hold a unit's own parameters, ascending. There is
  /// nearly always just one. Throws std::out_of_range if the unit is not in this layout.
  std::vector<std::size_t> buckets_of(int unit) const;
  /// Returns the index of the bucket that holds the parameter whose ParameterSpec::order is
  /// `order`. Throws std::out_of_range if none does.
  std::size_t bucket_holding(int order) const;
  /// Returns the pieces of parameters in shard i of the bucket, in order.
  std::vector<Piece> shard(const Bucket& bucket, int i) const;
  /// Returns the slice of the whole parameter that a piece covers.
  static Slice slice(const Bucket& bucket, const Piece& piece) {
    return bucket.slots[piece.slot].parameter.slice.range(piece.in_parameter, piece.elements);
  }
  /// Returns the number of elements in all buckets, including padding; `with_frozen` = false skips
  /// frozen buckets.
  std::int64_t elements(bool with_frozen = true) const;
  /// Like elements(), but excluding padding.
  std::int64_t used(bool with_frozen = true) const;
  /// Returns the number of parameter elements in shard i of all buckets, without padding: the
  /// elements that rank i's optimizer updates.
  std::int64_t owned(int i, bool with_frozen = false) const;

 private:
  int shards_;
  std::vector<Bucket> buckets_;
  std::vector<std::pair<int, std::size_t>> holding_;  ///< parameter order and bucket, sorted
};

}  // namespace lockstep
