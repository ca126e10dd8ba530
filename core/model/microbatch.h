#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/plan/documents.h"
#include "kernels/view.h"

namespace lockstep {

/// For some queries, the keys that each query sees: those of its own document, up to its own
/// position.
struct DocumentMask {
  View visible;            ///< (b, queries, 2) i32: rows [begin, end) of the keys
  std::int64_t pairs = 0;  ///< of a query and a key that it sees, over all sequences
};

/// The masks of a microbatch of packed documents.
struct DocumentMasks {
  std::vector<Documents> documents;  ///< of each sequence
  DocumentMask whole;                ///< all tokens and all keys of each sequence
  /// One mask per rank of the context-parallel group: which of that rank's keys, in ascending order
  /// of their positions, each of this rank's queries sees. Empty if sequences are not divided.
  std::vector<DocumentMask> by_rank;
};

/// The unit of work that passes through a model. Owns nothing; the views must stay valid until the
/// microbatch's backward pass is done.
struct Microbatch {
  View tokens;             ///< (b, s) i32
  View targets;            ///< (b, s) i32: the token after each position
  float token_weight = 1;  ///< of each token's loss: 1 / (tokens of the whole batch)
  bool last = false;       ///< last of its batch: its backward pass completes the gradients
  View positions{};        ///< (b, s) or (s) i32: the place of each token in its text, from 0
  /// Which keys each query sees, if several documents are packed into a sequence; null if a
  /// sequence is one text.
  const DocumentMasks* masks = nullptr;
};

/// m microbatches of (b, s) tokens and targets, with their storage. Move-only.
struct Batch {
  Batch() = default;
  Batch(Batch&&) = default;
  Batch& operator=(Batch&&) = default;

  std::vector<std::int32_t> tokens;      ///< (m, b, s)
  std::vector<std::int32_t> targets;     ///< (m, b, s)
  std::vector<std::int32_t> positions;   ///< (m, b, s)
  std::vector<std::int32_t> visible;     ///< of all masks, one after another
  std::vector<Microbatch> microbatches;  ///< views of the vectors or, on a GPU, of `copy`
  std::vector<std::unique_ptr<DocumentMasks>> masks;  ///< of the microbatches
  std::shared_ptr<void> copy;  ///< copy on the GPU; like the vectors, not charged to Memory
};

}  // namespace lockstep
