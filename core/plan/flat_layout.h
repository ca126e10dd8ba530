#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/plan.h"

namespace lockstep {

/// Where a rank's parameters lie when they, or their gradients, are kept in flat buffers: in
/// buckets of whole units, in the order in which backward completes their gradients (the head
/// first), each of which is sent as one and cut into as many equal shards as there are ranks.
///
/// A ring adds each chunk in an order that depends on where the chunk lies. Data parallelism and
/// every stage of ZeRO use the same layout, and so their sums have the same bits.
class FlatLayout {
 public:
  /// Parameters begin at multiples of so many elements: 256 bytes of f32, 128 in 16 bits.
  static constexpr std::int64_t alignment = 64;

  struct Slot {
    StoredParameter parameter;
    std::int64_t offset = 0;  ///< elements, in the bucket
    std::int64_t elements() const { return parameter.slice.local().elements(); }
  };
  struct Bucket {
    std::vector<int> units;  ///< whose parameters it holds, wholly or in part, in descending order
    std::vector<Slot> slots;
    std::int64_t elements = 0;  ///< with padding; a multiple of the shards
    std::int64_t used = 0;      ///< without
    DType dtype = DType::f32;   ///< of all its parameters
    bool frozen = false;        ///< no gradients, no updates; never with others in one bucket

    /// Backward comes to the bucket with its first unit, and has done with it after its last;
    /// forward the other way round.
    int first_unit() const { return units.front(); }
    int last_unit() const { return units.back(); }
  };
  /// The part of one parameter that lies in one shard.
  struct Piece {
    std::size_t slot = 0;           ///< of the bucket
    std::int64_t in_parameter = 0;  ///< elements before it in the parameter's storage
    std::int64_t in_shard = 0;      ///< and in the shard
    std::int64_t elements = 0;
  };

  /// Of the units of one stage (Plan::units, Gpt::stored_units). A bucket is closed with the unit
  /// that makes it at least `bucket_bytes` large; 1 gives every unit its own. A tied table lies
  /// with the embedding, if that is on the same stage. Parameters of one unit that differ in dtype,
  /// or in being frozen, are in different buckets. Throws UsageError for bucket_bytes < 1, and if
  /// there are more shards than elements.
  FlatLayout(const std::vector<StoredUnit>& units, int shards, std::int64_t bucket_bytes);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  int shards() const { return shards_; }
  /// The buckets that hold a unit's own parameters, ascending; nearly always one. Throws
  /// std::out_of_range for a unit that is not here.
  std::vector<std::size_t> buckets_of(int unit) const;
  /// The bucket that holds the parameter of that order. Throws std::out_of_range if none does.
  std::size_t bucket_holding(int order) const;
  /// The pieces of parameters that lie in shard i of the bucket, in order.
  std::vector<Piece> shard(const Bucket& bucket, int i) const;
  /// The slice of the whole parameter that a piece covers.
  static Slice slice(const Bucket& bucket, const Piece& piece) {
    return bucket.slots[piece.slot].parameter.slice.range(piece.in_parameter, piece.elements);
  }
  /// Elements of all buckets, padding included; without the frozen ones if `with_frozen` is false.
  std::int64_t elements(bool with_frozen = true) const;
  /// The same without padding.
  std::int64_t used(bool with_frozen = true) const;
  /// Elements of parameters in shard i of every bucket, without padding: what an optimizer updates.
  std::int64_t owned(int i, bool with_frozen = false) const;

 private:
  int shards_;
  std::vector<Bucket> buckets_;
  std::vector<std::pair<int, std::size_t>> holding_;  ///< parameter and bucket, in order
};

}  // namespace lockstep
