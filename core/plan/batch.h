#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/documents.h"

namespace lockstep {

/// How a sequence's positions are divided among the ranks of a context-parallel group.
enum class ContextLayout {
  contiguous,  ///< N equal chunks; rank i has chunk i
  zigzag,      ///< 2N chunks; rank i has i and 2N-1-i, which balances causal attention
  striped,     ///< rank i has positions i, i + N, i + 2N, ..., which also balances it
  balanced,    ///< blocks, dealt out by the work of their documents (balanced_positions)
};

/// The number of samples that all ranks together process in one step.
struct BatchGeometry {
  int sequences = 16;    ///< total over all replicas and microbatches
  int microbatches = 8;  ///< m, per replica; with `shares`, the mean over replicas
  /// The number of microbatches of each replica, at least one, if replicas differ in speed and
  /// therefore take different shares of the batch; empty if all take m. Microbatches stay equal in
  /// size, so these numbers add up to dp · m.
  std::vector<int> shares{};
  ContextLayout context = ContextLayout::contiguous;
  /// If several documents are packed into each sequence, their mean length; 0 if a sequence is one
  /// text.
  int documents = 0;
  bool operator==(const BatchGeometry&) const = default;
};

/// The part of each sequence that one rank of a context-parallel group reads.
struct ContextShare {
  ContextLayout layout = ContextLayout::contiguous;
  int member = 0;   ///< index of the rank in the group
  int members = 1;  ///< ranks that share each sequence
  bool operator==(const ContextShare&) const = default;
};

/// The part of a step's samples that one rank reads.
struct BatchShape {
  int microbatches = 1;  ///< m
  int size = 1;          ///< b, sequences per microbatch
  int replicas = 1;      ///< number of replicas; each reads m * b of the step's samples
  int replica = 0;       ///< index of this replica
  ContextShare context{};
  int documents = 0;          ///< BatchGeometry::documents
  std::vector<int> shares{};  ///< BatchGeometry::shares

  /// Returns the number of the step's samples that precede those of this replica.
  std::int64_t first() const;
  /// Returns the number of the step's samples, over all replicas.
  std::int64_t all() const;
  bool operator==(const BatchShape&) const = default;
};

/// Returns the positions of rank `i` of `n` in a context-parallel group. Throws UsageError, naming
/// --sequence and --cp, if `sequence` positions do not divide into the layout's chunks.
/// If the layout is balanced, the sequence is one document.
std::vector<Positions> context_positions(ContextLayout layout, int sequence, int i, int n);
/// Like the function above, for a sequence of several documents; only a balanced layout depends on
/// them.
std::vector<Positions> context_positions(ContextLayout layout, const Documents& documents, int i,
                                         int n);

}  // namespace lockstep
