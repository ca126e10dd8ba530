#pragma once

#include <vector>

namespace lockstep {

/// How a sequence's positions are divided among the ranks of a context-parallel group.
enum class ContextLayout {
  contiguous,  ///< N equal chunks; rank i has chunk i
  zigzag,      ///< 2N chunks; rank i has i and 2N-1-i, which balances causal attention
  striped,     ///< rank i has positions i, i + N, i + 2N, ..., which balances it, too
};

/// The number of samples that all ranks together process in one step.
struct BatchGeometry {
  int sequences = 16;    ///< total over all replicas and microbatches
  int microbatches = 8;  ///< m, per replica
  ContextLayout context = ContextLayout::contiguous;
  bool operator==(const BatchGeometry&) const = default;
};

/// Positions [begin, end) of a sequence.
struct Positions {
  int begin = 0;
  int end = 0;
  bool operator==(const Positions&) const = default;
};

/// The part of a step's samples that one rank reads.
struct BatchShape {
  int microbatches = 1;  ///< m
  int size = 1;          ///< b, sequences per microbatch
  int replicas = 1;      ///< number of replicas; each reads m * b of the step's samples
  int replica = 0;       ///< index of this replica
  /// The positions of each sequence, in this order; empty means all.
  std::vector<Positions> positions{};
  bool operator==(const BatchShape&) const = default;
};

/// Returns the positions of rank `i` of `n` in a context-parallel group. Throws UsageError, naming
/// --sequence and --cp, if `sequence` positions do not divide into the layout's chunks.
std::vector<Positions> context_positions(ContextLayout layout, int sequence, int i, int n);

}  // namespace lockstep
