#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/adamw_options.h"
#include "core/plan/batch.h"
#include "core/plan/boundary.h"
#include "core/plan/communication.h"
#include "core/plan/config.h"
#include "core/plan/gpt_parameters.h"
#include "core/plan/mesh.h"
#include "core/plan/slice.h"
#include "core/plan/stage_layers.h"
#include "core/time/clock.h"

namespace lockstep {

class ModelBuilder;  // core/model/builder.h

/// The cluster that modelled time describes, or fixed times in place of its costs.
struct ModelledTime {
  Cluster cluster;
  FixedTimes times{};
  bool operator==(const ModelledTime&) const = default;
};

/// A part of one parameter that a rank holds.
struct Held {
  int stage = 0;      ///< the pipeline stage that uses it
  int parameter = 0;  ///< its index in Plan::parameters
  Slice slice;
  bool operator==(const Held&) const = default;
};

/// The storage of one parameter on a rank, from a Plan or from a Gpt.
struct StoredParameter {
  int order = 0;  ///< ParameterSpec::order
  Slice slice;
  DType dtype = DType::f32;
  bool frozen = false;
  bool operator==(const StoredParameter&) const = default;
};

/// What is gathered, run and discarded as one: the embedding, a block, or the head.
struct StoredUnit {
  int index = 0;  ///< as GptConfig::frozen numbers them
  std::vector<StoredParameter> parameters{};
  bool operator==(const StoredUnit&) const = default;
};

/// A rank's coordinates, groups, pipeline stages and slices of the parameters.
struct Place {
  int rank = 0;
  std::array<int, axes_with_experts> coordinates{};           ///< by Axis
  std::array<std::vector<int>, axes_with_experts> members{};  ///< of its group along each Axis
  std::vector<int> stages;                                    ///< that live here, ascending
  std::vector<Held> held;  ///< by stage, and in each stage in the model's order

  int coordinate(Axis axis) const { return coordinates[static_cast<std::size_t>(axis)]; }
  const std::vector<int>& group(Axis axis) const { return members[static_cast<std::size_t>(axis)]; }
  int size(Axis axis) const { return static_cast<int>(group(axis).size()); }
  /// For techniques that handle one stage per rank. Throws std::logic_error if there are more, or
  /// none.
  int only_stage() const;
  bool operator==(const Place&) const = default;
};

/// A run, as a value: which model is trained, how, and on which ranks. What a rank holds follows
/// from it (place), without a rank, a transport or a flag; initial values, checkpoints, the
/// comparison with one device, shards, predictions and the data of each rank read nothing else.
struct Plan {
  /// GPT-2 on the mesh, one stage for each rank of the pipeline axis. A model alone is a plan of
  /// one device.
  Plan(const GptConfig& config = {}, const Mesh& mesh_ = {});

  Mesh mesh;
  /// (stages): the place on the pipeline axis at which each stage lives.
  std::vector<int> rank_of_stage;
  BatchGeometry batch;
  AdamWOptions optimizer;
  std::uint64_t seed = 1;
  std::optional<ModelledTime> modelled;  ///< without it the clock is the wall clock
  Collectives collectives = Collectives::ring;
  /// Whether receives that add read the sender's buffer in place (Transport::combines): then a
  /// reduction needs no scratch for what comes in.
  bool receives_combine = true;

  /// Precision and frozen units included.
  const GptConfig& model() const { return model_; }
  /// Makes the model's layers on the ranks, on one device and on the meta device; null for GPT-2's
  /// own.
  const std::shared_ptr<const ModelBuilder>& builder() const { return builder_; }
  /// All parameters of the whole model in ascending order, with their cuts.
  const std::vector<ParameterSpec>& parameters() const { return *parameters_; }
  /// Replaces all three; core/model/builder.h has the usual way. Throws std::invalid_argument for
  /// parameters out of order.
  void set_model(const GptConfig& config, std::shared_ptr<const ModelBuilder> builder,
                 std::vector<ParameterSpec> parameters);

  int stages() const { return static_cast<int>(rank_of_stage.size()); }
  StageLayers layers_of(int stage) const { return StageLayers::of(model_, stage, stages()); }
  /// The rank that holds this stage in the pipeline of `rank`.
  int rank_holding(int stage, int rank = 0) const {
    return mesh.group(
        rank, Axis::pp)[static_cast<std::size_t>(rank_of_stage[static_cast<std::size_t>(stage)])];
  }
  /// What one rank holds. Linear in the parameters of its stages.
  Place place(int rank) const;
  /// All ranks that hold the same slice of a parameter (an index in parameters()) as `rank`, which
  /// holds it, in ascending order.
  std::vector<int> replicas(int parameter, int rank) const;

  /// The units that a rank runs on one of its stages, in order, and what it stores of each. The
  /// unit of a tied head has the token table, too.
  std::vector<StoredUnit> units(const Place& place, int stage) const;

  /// A rank's share of a step's batch, cut into m microbatches.
  BatchShape samples(const Place& place, int microbatches) const;
  BatchShape samples(const Place& place) const { return samples(place, batch.microbatches); }
  /// Sequences of one microbatch on one replica.
  int microbatch_size(int microbatches) const {
    return batch.sequences / mesh.size(Axis::dp) / microbatches;
  }
  /// What crosses from one stage to the next: (b, s / cp, h).
  Boundary boundary(int microbatches) const;

  Clock clock() const;

  /// Throws UsageError, one line that names the flag, for a plan that can't be run: heads that
  /// --tp does not divide, more stages than layers, a batch or a sequence that does not divide.
  void validate() const;

  /// What a reader of a report wants to know of it; not all that a Plan is made of.
  std::string json() const;
  /// {"rank": 5, "coordinates": {...}, "groups": {...}, "stages": [...], "parameters": [...]}.
  std::string json(const Place& place) const;

  /// Builders are compared by identity.
  bool operator==(const Plan& other) const;

 private:
  GptConfig model_;
  std::shared_ptr<const ModelBuilder> builder_;
  std::shared_ptr<const std::vector<ParameterSpec>> parameters_;
};

}  // namespace lockstep
