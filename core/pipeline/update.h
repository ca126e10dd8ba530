#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/comm/group.h"
#include "core/model/adamw.h"
#include "core/model/gpt.h"
#include "core/plan/plan.h"

namespace lockstep {

/// The bytes that one PipelineUpdate::step sends and holds on one rank, besides its stages.
struct UpdateMessages {
  BytesSent bytes_sent;         ///< as the transport counts them
  std::int64_t peak_bytes = 0;  ///< the highest that MemoryCategory::communication reaches
};

/// The messages of one rank. A library's own collectives
/// (Collectives::native) send bytes that the transport does not count, and need no scratch of ours.
UpdateMessages update_messages(const Plan& plan, const Place& place);

/// One optimizer step of a model whose stages lie on the ranks of a group, on each rank any number
/// of them. It adds what the stages need from one another:
///
/// - Tied head: the first and the last stage each have a token table, with the gradient of their
///   own use. Both tables get the sum of the two gradients: by an all-reduce if the stages are on
///   different ranks, else by an addition on their rank. The model on one device adds the same two
///   terms, so the bits are the same.
/// - Clipping: the gradient's norm is over all stages. Every rank gathers all tensors' sums of
///   squares and adds them in the model's order, a tied table once, so that the norm has the bits
///   of one device.
///
/// Without either (the default), and on a pipeline of one rank, nothing is sent.
class PipelineUpdate {
 public:
  /// `pipeline` holds the pipeline's ranks; stage i is on its member plan.rank_of_stage[i].
  /// `stages` are the models of the stages on this rank, in ascending order of stage, and
  /// `optimizer` updates the parameters of all of them. Group, models and optimizer must outlive
  /// the update. Every rank of the run makes its updates in the same order. Throws
  /// std::invalid_argument if the number of models is not that of this rank's stages, or is 0.
  PipelineUpdate(Endpoint endpoint, const Group& pipeline, const Plan& plan,
                 std::vector<Gpt*> stages, AdamW& optimizer);

  /// Completes the gradients, clips them if the optimizer does, and updates the parameters. Call it
  /// after PipelineExecutor::step, on every rank.
  void step();

 private:
  void add_tied_gradients();
  double global_norm();
  std::map<int, double> gathered_squares();

  Endpoint endpoint_;
  Plan plan_;
  AdamW& optimizer_;
  /// The token tables of a tied head on this rank; null if the stage is elsewhere, if both uses are
  /// in one stage, which adds the gradients itself, or if the table is frozen.
  Parameter* first_table_ = nullptr;
  Parameter* last_table_ = nullptr;
  std::unique_ptr<Group> ends_;  ///< the ranks of the two tables, if they are two
  std::unique_ptr<Group> all_;   ///< all ranks, if gradients are clipped and there are several
};

}  // namespace lockstep
