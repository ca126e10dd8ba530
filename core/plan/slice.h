#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/view.h"

namespace lockstep {

/// A shape of these extents, four at most; std::invalid_argument for more.
Shape shape_of(std::span<const std::int64_t> extents);

/// Elements [begin, begin + extent) of a tensor in each of its dimensions.
struct Box {
  std::array<std::int64_t, Shape::max_rank> begin{};
  Shape extent;
  bool operator==(const Box&) const = default;
};

/// One dimension of a tensor divided among `parts` ranks.
struct DimensionCut {
  int dimension = 0;
  int part = 0;   ///< which of them this is
  int parts = 1;  ///< among how many ranks
  /// Equal blocks side by side, each divided on its own: 3 for the q, k and v columns of one
  /// matrix.
  int sections = 1;
  /// A part is a multiple of this many rows or columns: those of one head, for example. Parts are
  /// equal: if the dimension does not divide, the last ones are padded.
  std::int64_t grain = 1;
};

/// What one rank stores of a tensor: boxes in the whole tensor's shape, and where each of them lies
/// in the rank's own storage. A column of shards, the q, k and v columns of some heads, some rows
/// of a vocabulary with their padding, one expert of several and ZeRO's flat ranges are all Slices.
/// A value: computed without a rank, a device or a transport.
class Slice {
 public:
  /// A box and its place in local storage, which is row-major: element (i, j, ...) of the box is at
  /// offset + i * strides[0] + j * strides[1] + ...
  struct Piece {
    Box box;
    std::int64_t offset = 0;
    std::array<std::int64_t, Shape::max_rank> strides{};
    bool operator==(const Piece&) const = default;
  };
  /// Consecutive elements, both of the whole tensor in row-major order and of local storage.
  struct Run {
    std::int64_t in_whole = 0;
    std::int64_t in_local = 0;
    std::int64_t elements = 0;
    bool operator==(const Run&) const = default;
  };

  Slice() = default;
  /// All of a tensor.
  explicit Slice(const Shape& whole) : Slice(whole, {}) {}
  /// What remains after all of `cuts`. Several may divide one dimension, each what the one before
  /// it left. Throws std::invalid_argument for a cut that does not fit the shape.
  Slice(const Shape& whole, std::span<const DimensionCut> cuts);

  /// Rebuilds a slice received from another rank.
  static Slice of_pieces(const Shape& whole, const Shape& local, std::vector<Piece> pieces);

  /// Elements [first, first + count) of this slice's local storage, as a slice of local shape
  /// (count): a ZeRO shard, for example. Throws std::invalid_argument beyond the storage.
  Slice range(std::int64_t first, std::int64_t count) const;

  /// The tensor's shape in the model on one device.
  const Shape& whole() const { return whole_; }
  /// The shape of this rank's storage, padding included.
  const Shape& local() const { return local_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  /// How many elements of the whole tensor are here; less than local().elements() with padding.
  std::int64_t elements() const;
  bool is_whole() const { return elements() == whole_.elements() && local_ == whole_; }
  /// Where each element is, as few runs as possible, in the order of the pieces.
  std::vector<Run> runs() const;

  bool operator==(const Slice&) const = default;

  /// "[0:64, 0:16] + [0:64, 64:80] of [64, 192]".
  std::string text() const;
  /// {"whole": [64, 192], "local": [64, 32], "boxes": [{"begin": [0, 0], "extent": [64, 16]},
  /// ...]}.
  std::string json() const;

 private:
  Shape whole_, local_;
  std::vector<Piece> pieces_;
};

}  // namespace lockstep
