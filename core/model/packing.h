#pragma once

#include <cstdint>

#include "core/model/microbatch.h"
#include "core/plan/batch.h"

namespace lockstep {

/// Returns the documents that are packed into a sample of `sequence` tokens. Their lengths have a
/// long tail, a log-normal distribution with this mean and σ = 1, and the last document is cut off.
/// They depend only on the seed, the step and the sample's number, so any rank, even one on the
/// meta device, knows the documents of every sample. If `mean` is 0, the sample is one document.
Documents packed_documents(std::uint64_t seed, int step, std::uint64_t sample, int sequence,
                           int mean);

/// Appends the masks of a microbatch of these sequences to `batch`: for whole sequences, and for
/// the tokens of a rank that holds a part of each sequence. Sets the numbers of pairs, and appends
/// the keys that each query sees to Batch::visible, in the order of DocumentMasks.
void add_masks(Batch& batch, std::vector<Documents> documents, const ContextShare& share);

/// Points the masks, in the same order, to their parts of `visible`: Batch::visible, or a copy of
/// it.
void place_masks(Batch& batch, View visible);

}  // namespace lockstep
