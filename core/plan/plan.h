#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/plan/adamw_options.h"
#include "core/plan/batch.h"
#include "core/plan/boundary.h"
#include "core/plan/communication.h"
#include "core/plan/gpt_config.h"
#include "core/plan/gpt_parameters.h"
#include "core/plan/mesh.h"
#include "core/plan/slice.h"
#include "core/plan/stage_layers.h"
#include "core/plan/stored_units.h"
#include "core/time/clock.h"

namespace lockstep {

class ModelBuilder;  // core/model/builder.h

/// The part of one parameter that a rank holds.
struct Held {
  int stage = 0;      ///< the pipeline stage that uses it
  int parameter = 0;  ///< its index in Plan::parameters
  Slice slice;
  bool operator==(const Held&) const = default;
};

/// A rank's coordinates, groups, pipeline stages and slices of the parameters.
struct Place {
  int rank = 0;
  std::array<int, all_axes_count> coordinates{};           ///< by Axis
  std::array<std::vector<int>, all_axes_count> members{};  ///< its group along each Axis
  std::vector<int> stages;                                 ///< the stages it runs, ascending
  std::vector<Held> held;  ///< by stage, and in model order within a stage

  int coordinate(Axis axis) const { return coordinates[static_cast<std::size_t>(axis)]; }
  const std::vector<int>& group(Axis axis) const { return members[static_cast<std::size_t>(axis)]; }
  int size(Axis axis) const { return static_cast<int>(group(axis).size()); }
  /// Returns the rank's stage, for techniques that handle one stage per rank. Throws
  /// std::logic_error unless the rank has exactly one stage.
  int only_stage() const;
  bool operator==(const Place&) const = default;
};

/// A run as a plain value: the model, its training settings and its ranks. place() derives each
/// rank's part of the model, and needs no running rank, transport or flag for this. Initial values,
/// checkpoints, the comparison with a single-device run, shards, predictions and each rank's data
/// depend only on the Plan.
struct Plan {
  /// Creates a plan for the plain model of `config` on the mesh, with one stage per rank of the
  /// pipeline axis. The default mesh is one device.
  Plan(const GptConfig& config = {}, const Mesh& mesh_ = {});

  /// Assign it only if the size of pp and the stages stay the same; otherwise use set_mesh().
  Mesh mesh;
  /// For each stage, the rank that holds it, as a coordinate on the pipeline axis.
  std::vector<int> rank_of_stage;
  /// The number of blocks of each stage; empty if blocks are divided as evenly as possible.
  std::vector<int> split{};
  BatchGeometry batch;
  AdamWOptions optimizer;
  std::uint64_t seed = 1;
  std::optional<ModelledTime> modelled;  ///< unset: wall clock
  /// On the wall clock: the number of consecutive ranks that share a node, for algorithms that
  /// distinguish nodes. On the modelled clock, the cluster determines this.
  int ranks_per_node = Cluster{}.ranks_per_node;
  Collectives collectives = Collectives::built_in;
  /// Whether a receive that adds can read the sender's buffer in place (Transport::combines). If
  /// so, a reduction needs no scratch memory for incoming data.
  bool receives_combine = true;
  /// Whether the ranks are on the meta device, where a switch can add (Algorithm::in_switch).
  bool on_meta = false;

  /// Sets the mesh, with one stage per rank of the pipeline axis.
  void set_mesh(const Mesh& mesh_);
  /// Returns the plan for the same training on one rank, which the parity check compares with.
  Plan on_one_device() const;

  /// Returns the model's configuration, including precision and frozen units.
  const GptConfig& model() const { return model_; }
  /// Returns the builder of the model's layers. The ranks, the single-device reference and the meta
  /// device all use it. Null means the plain model.
  const std::shared_ptr<const ModelBuilder>& builder() const { return builder_; }
  /// Returns all parameters of the whole model in ascending order, with their cuts.
  /// The reference is valid until the next set_model(), and while the plan or an older copy of it
  /// exists; a temporary plan has no such list.
  const std::vector<ParameterSpec>& parameters() const& { return *parameters_; }
  const std::vector<ParameterSpec>& parameters() const&& = delete;
  /// Sets configuration, builder and parameters. Prefer the free functions set_model()
  /// and set_builder() in core/model/builder.h, which call this one. Throws std::invalid_argument
  /// if the parameters are out of order.
  void set_model(const GptConfig& config, std::shared_ptr<const ModelBuilder> builder,
                 std::vector<ParameterSpec> parameters);

  int stages() const { return static_cast<int>(rank_of_stage.size()); }
  StageLayers layers_of(int stage) const { return StageLayers::of(model_, stage, stages(), split); }
  /// Returns the number of blocks of each stage.
  std::vector<int> blocks_of_stages() const {
    return split.empty() ? even_split(model_, stages()) : split;
  }
  /// Returns the rank that holds this stage in the pipeline of `rank`.
  int rank_holding(int stage, int rank = 0) const {
    return mesh.group(
        rank, Axis::pp)[static_cast<std::size_t>(rank_of_stage[static_cast<std::size_t>(stage)])];
  }
  /// Returns the part of the model that one rank holds. For each of the rank's stages, this takes
  /// time linear in the number of the model's parameters.
  Place place(int rank) const;
  /// Returns all ranks that hold the same slice of a parameter as `rank`, in ascending order.
  /// `parameter` is an index in parameters(), and `rank` must hold a slice of that parameter.
  std::vector<int> replicas(int parameter, int rank) const;

  /// Returns the units that a rank runs on one of its stages: stored_units().
  std::vector<StoredUnit> units(const Place& place, int stage) const;

  /// Returns the number of microbatches of a replica (a coordinate on the dp axis), if m is the
  /// mean over replicas.
  int microbatches_of(int replica, int microbatches) const {
    return batch.shares.empty() ? microbatches : batch.shares[static_cast<std::size_t>(replica)];
  }
  /// Returns a rank's share of a step's batch, split into m microbatches, or as many as its replica
  /// has.
  BatchShape samples(const Place& place, int microbatches) const;
  BatchShape samples(const Place& place) const { return samples(place, batch.microbatches); }
  /// Returns the number of sequences per microbatch on one replica. If replicas have shares, these
  /// determine it, whatever m.
  int microbatch_size(int microbatches) const;
  /// Returns a description of the tensor sent from one stage to the next: (b, s / cp, h).
  Boundary boundary(int microbatches) const;

  /// Returns the clock of a rank: the wall clock, or the modelled clock with this pace
  /// (Clock::keep_pace).
  Clock clock(int rank = 0, double pace = 0) const;

  /// Throws UsageError, with a one-line message that names the flag, for a plan that cannot run:
  /// heads (of queries or of keys) or an MLP that --tp does not divide, more stages than layers, a
  /// split that does not match the layers, a batch or sequence that does not divide evenly, or
  /// shares that do not add up to the batch.
  void validate() const;

  /// Compares builders by address.
  bool operator==(const Plan& other) const;

 private:
  GptConfig model_;
  std::shared_ptr<const ModelBuilder> builder_;
  std::shared_ptr<const std::vector<ParameterSpec>> parameters_;
};

}  // namespace lockstep
