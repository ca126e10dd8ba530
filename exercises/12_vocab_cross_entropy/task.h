#pragma once

#include "exercises/frame/collectives.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// A rank's part of the logits of some positions: one column for each of the vocabulary's tokens
/// `first` to `first + columns - 1`. A rank may also have no columns.
struct Slice {
  Slice(int positions_, int first_, int columns_)
      : positions(positions_),
        first(first_),
        columns(columns_),
        numbers(static_cast<std::size_t>(positions) * static_cast<std::size_t>(columns)) {}

  /// The number for position `position` in column `column` of this slice; columns count from 0.
  float& operator()(int position, int column) { return numbers[index(position, column)]; }
  float operator()(int position, int column) const { return numbers[index(position, column)]; }

  int positions, first, columns;
  std::vector<float> numbers;  ///< position by position

 private:
  std::size_t index(int position, int column) const {
    return static_cast<std::size_t>(position) * static_cast<std::size_t>(columns) +
           static_cast<std::size_t>(column);
  }
};

struct Loss {
  std::vector<float> losses;  ///< of each position
  Slice gradient;             ///< of each position's loss with respect to this rank's logits
};

/// Leaves the largest value over all ranks of each element of `data` in every rank's `data`. Like
/// all_reduce(), it is called on all ranks, and it sends as much.
void all_reduce_max(World& ranks, std::span<float> data, Where where = Where::current());

/// Cross-entropy of logits that are divided among the ranks by columns, in the order of ranks. For
/// each position, `targets` holds the target's index in the whole vocabulary, the same on each
/// rank. Each rank returns the losses, log Σ exp(z) - z[target] with the sum over the whole
/// vocabulary, and the gradient with respect to its own logits: exp(z) / Σ exp(z), minus 1 at the
/// target.
///
/// Logits may be any numbers from -10,000 to 10,000. The ranks may communicate three numbers per
/// position, by three all-reduces or by gathering them, but no rows of logits. A rank sends at most
/// as many messages as three all-reduces do, 6 (N - 1), and no message or collective is empty.
Loss cross_entropy(World& ranks, const Slice& logits, const std::vector<int>& targets);

}  // namespace lockstep::exercises
