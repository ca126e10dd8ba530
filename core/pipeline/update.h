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

/// The bytes that PipelineUpdate::step() sends from, and allocates on, one rank. The bytes that the
/// stages' own actions send are not included.
struct UpdateMessages {
  BytesSent bytes_sent;         ///< as counted by the transport
  std::int64_t peak_bytes = 0;  ///< peak of MemoryCategory::communication
};

/// Returns the bytes that PipelineUpdate::step() sends and allocates on one rank, without ZeRO. The
/// transport does not count the bytes of a library's own collectives (Collectives::native), and
/// those collectives need no scratch here.
UpdateMessages update_messages(const Plan& plan, const Place& place);

/// Runs the optimizer step of a model whose stages are distributed over the ranks of a group, with
/// any number of stages per rank. Performs the exchanges that the stages need:
///
/// - Tied head: the first and the last stage each hold a token table and the gradient from their
///   own use of it. Both tables receive the sum of the two gradients: by an all-reduce if the
///   stages are on different ranks, otherwise by a local addition. A single-device run adds the
///   same two terms, so the results are bitwise identical. If ZeRO has divided the gradients, each
///   rank exchanges only its shard of the table, which is the same on both stages.
/// - Clipping: the gradient norm covers the whole model, whose gradients are divided among the
///   stages, among the ranks of each stage if layers are divided (divides_layers), and among the
///   ranks that share a copy of the stage's states if ZeRO divides them (sharers). Every rank
///   gathers all tensors' sums of squares and adds them in model order. A gradient that several of
///   these ranks hold counts only once: a tied table's on the first stage, and a replicated
///   parameter's on the rank with coordinate 0. If each rank holds whole tensors, the norm is
///   bitwise identical to that of a single-device run.
///
/// With an untied head and without clipping, or if one rank holds the whole model, nothing is sent.
class PipelineUpdate {
 public:
  /// `pipeline` holds the pipeline's ranks; stage i is on its member plan.rank_of_stage[i].
  /// `stages` are the models of this rank's stages, in ascending stage order, and `optimizer`
  /// updates the parameters of all of them, or, with ZeRO, this rank's parts of them. `shards` is
  /// the number of dp_cp ranks among which ZeRO divides the updates of the parameters; 1 without
  /// ZeRO. Group, models and optimizer must outlive the update. All ranks of the run must create
  /// their updates in the same order. Throws std::invalid_argument if the number of models is not
  /// the number of this rank's stages, or is 0.
  PipelineUpdate(Endpoint endpoint, const Group& pipeline, const Plan& plan,
                 std::vector<Gpt*> stages, AdamW& optimizer, int shards = 1);

  /// Completes the gradients, clips them if clipping is enabled, and updates the parameters. Call
  /// it after PipelineExecutor::step, on every rank.
  void step();

 private:
  void add_tied_gradients();
  double global_norm();
  std::map<int, double> gathered_squares();
  bool counts(const ParameterSpec& spec) const;

  Endpoint endpoint_;
  Plan plan_;
  AdamW& optimizer_;
  /// A tied head's token tables, or this rank's shards of them. A pointer is null if its stage is
  /// on another rank, if a single stage uses the table twice (that stage adds the gradients
  /// itself), if the table is frozen, or if no element of it is in this rank's shard.
  Parameter* first_table_ = nullptr;
  Parameter* last_table_ = nullptr;
  std::unique_ptr<Group> ends_;  ///< the ranks of the two tables, if the ranks differ
  /// The ranks that together hold the model, if there are several and gradients are clipped.
  std::unique_ptr<Group> all_;
};

}  // namespace lockstep
