#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/comm/transport/transport.h"
#include "core/model/adamw.h"
#include "core/model/checkpoint/manifest.h"
#include "core/model/parameter.h"
#include "core/plan/plan.h"

namespace lockstep {

/// The part of a parameter, or of one of its moments, that a rank holds.
struct TensorPart {
  std::string name;  ///< of the parameter, or NAME.momentum, NAME.variance
  int order = 0;     ///< of the parameter
  bool moment = false;
  Slice slice;
  std::function<std::vector<float>()> read;  ///< returns the values, (slice.local())

  /// Returns the elements of a box, row-major, from the values that read() has returned. The box is
  /// in one of the slice's pieces.
  std::vector<float> elements(const Box& box, const std::vector<float>& values) const;
};

/// Returns the parts of `parameters` (for a 16-bit parameter, of its master, if an optimizer has
/// one) and, if there is an optimizer, of its moments.
std::vector<TensorPart> tensor_parts(Device device, const std::vector<Parameter*>& parameters,
                                     const AdamW* optimizer);

/// A box of elements that a rank owns and therefore writes.
struct OwnedBox {
  std::size_t part = 0;  ///< index of the part that contains the box
  Box box;
  std::string crc32;  ///< of its elements
};

/// Assigns each element exactly one owner.
struct Ownership {
  std::vector<OwnedBox> mine;  ///< on each rank
  /// On rank 0: all tensors in the model's order, each with its boxes and the files of their
  /// owners, without checksums.
  std::vector<SavedTensor> tensors, moments;
  /// On every rank, the reason why the state should not be saved; empty if there is none.
  std::string unsound;
};

/// Collective: each rank contributes the parts of the model that it holds. An element belongs to
/// the lowest rank that holds it, so no byte is written twice. Ranks exchange boxes and checksums,
/// but no values. Throws RunError on rank 0 if replicas differ, or if no rank holds some element of
/// a parameter. The result is unsound if a value is not a finite number, or if any rank passes a
/// reason in `unsound`.
Ownership agree_on_owners(Transport& ranks, const Plan& plan, const std::vector<TensorPart>& parts,
                          const std::string& unsound);

}  // namespace lockstep
