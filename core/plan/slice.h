#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/plan/box.h"
#include "kernels/view.h"

namespace lockstep {

/// Returns a shape with these extents. Throws std::invalid_argument for more than four.
Shape shape_of(std::span<const std::int64_t> extents);
/// Returns a shape's extents.
std::vector<std::int64_t> extents_of(const Shape& shape);

/// How one dimension of a tensor is divided among `parts` ranks.
struct DimensionCut {
  int dimension = 0;
  int part = 0;   ///< index of this part
  int parts = 1;  ///< number of ranks
  /// The sizes of adjacent blocks that are divided separately: those of the q, k and v columns of
  /// one matrix, for example. Empty: the dimension is one block.
  std::vector<std::int64_t> sections{};
  /// The size of a part is a multiple of this number of rows or columns: for example, the number of
  /// columns of one head. All parts have the same size: if the dimension does not divide evenly,
  /// the last parts are padded.
  std::int64_t grain = 1;
};

/// The part of a tensor that one rank stores: boxes in the whole tensor's shape, and their
/// positions in the rank's own storage. Column shards, the q, k and v columns of some heads, a
/// padded range of vocabulary rows, one of several experts and ZeRO's flat ranges are all Slices. A
/// Slice is a plain value: it needs no rank, device or transport.
class Slice {
 public:
  /// A box and its position in local storage, which is row-major: element (i, j, ...) of the box is
  /// at offset + i * strides[0] + j * strides[1] + ...
  struct Piece {
    Box box;
    std::int64_t offset = 0;
    std::array<std::int64_t, Shape::max_rank> strides{};
    bool operator==(const Piece&) const = default;
  };
  /// Elements that are contiguous both in a box of the whole tensor, usually all of it, and in
  /// local storage.
  struct Run {
    std::int64_t in_box = 0;  ///< offset in the box's elements, which are row-major
    std::int64_t in_local = 0;
    std::int64_t elements = 0;
    bool operator==(const Run&) const = default;
  };

  Slice() = default;
  /// The entire tensor.
  explicit Slice(const Shape& whole) : Slice(whole, {}) {}
  /// Applies all `cuts` to the whole tensor, in order. Several cuts may divide the same dimension;
  /// each divides the result of the previous one. Throws std::invalid_argument for a cut that does
  /// not fit the shape.
  Slice(const Shape& whole, std::span<const DimensionCut> cuts);

  /// Rebuilds a slice from the pieces that another rank has sent.
  static Slice of_pieces(const Shape& whole, const Shape& local, std::vector<Piece> pieces);

  /// Returns elements [first, first + count) of this slice's local storage, as a slice of local
  /// shape (count): a ZeRO shard, for example. Throws std::invalid_argument if the range exceeds
  /// the storage.
  Slice range(std::int64_t first, std::int64_t count) const;

  /// Returns the shape of the unsharded tensor.
  const Shape& whole() const { return whole_; }
  /// Returns the shape of this rank's storage, including padding.
  const Shape& local() const { return local_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  /// Returns the number of elements of the whole tensor that this slice stores, without padding.
  std::int64_t elements() const;
  bool is_whole() const { return elements() == whole_.elements() && local_ == whole_; }
  /// Returns the positions of all elements as the fewest possible runs, in the order of the pieces.
  std::vector<Run> runs() const { return runs({.begin = {}, .extent = whole_}); }
  /// Returns the positions of this slice's elements in `box`, a box of the whole tensor.
  std::vector<Run> runs(const Box& box) const;

  bool operator==(const Slice&) const = default;

  /// Returns "[0:64, 0:16] + [0:64, 64:80] of [64, 192]".
  std::string text() const;
  /// Returns {"whole": [64, 192], "local": [64, 32], "boxes": [{"begin": [0, 0], "extent": [64,
  /// 16]}, ...]}.
  std::string json() const;

 private:
  Shape whole_, local_;
  std::vector<Piece> pieces_;
};

}  // namespace lockstep
