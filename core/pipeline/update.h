#pragma once

#include <memory>
#include <vector>

#include "core/comm/group.h"
#include "core/model/adamw.h"
#include "core/model/gpt.h"

namespace lockstep {

/// One optimizer step of a model whose stages lie on the ranks of a group. What that needs beyond
/// each rank's own update:
///
/// - Tied head: the token table lives on the first and on the last rank, each with the gradient of
///   its own use. An all-reduce of the two makes both the sum.
/// - Clipping: the gradient's norm is over all stages. The tensors' sums of squares are gathered
///   and added in the model's order, so that the norm has the bits of one device.
///
/// Without either (the default) nothing is sent.
class PipelineUpdate {
 public:
  /// `group` holds the pipeline's ranks, stage i on its i-th member; all must outlive the update.
  /// Every rank of the run makes its updates in the same order.
  PipelineUpdate(Endpoint endpoint, const Group& group, Gpt& stage, AdamW& optimizer);

  void step();

  /// What one rank sends a step, by operation.
  static std::int64_t tied_bytes(const GptConfig& config, int rank, int ranks);
  static std::int64_t norm_bytes(const GptConfig& config, int ranks);

 private:
  double global_norm();

  Endpoint endpoint_;
  Gpt& stage_;
  AdamW& optimizer_;
  std::unique_ptr<Group> ends_;  ///< where the head is tied: first and last rank
  std::unique_ptr<Group> all_;   ///< where gradients are clipped
};

}  // namespace lockstep
