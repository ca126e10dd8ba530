#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/model/batch_loss.h"
#include "core/model/builder.h"
#include "core/model/layer.h"
#include "core/model/layer_hooks.h"
#include "core/plan/stage_layers.h"

namespace lockstep {

/// A GPT-2 or a Llama, or one pipeline stage of it, with explicit forward and backward passes. The
/// losses and gradients of a pipeline of stages are bitwise identical to those of the whole model.
class Gpt {
 public:
  /// Builds the layers of `stage` and fills them with initial values that depend only on the seed
  /// and on each element's position in the whole model. Throws UsageError for an invalid
  /// configuration (GptConfig::validate). `device`'s memory and stream must outlive the model;
  /// `builder` is used only during this call.
  Gpt(const GptConfig& config, Device device, StageLayers stage, std::uint64_t seed,
      const ModelBuilder& builder = {}, Storage storage = Storage::own);
  /// Builds one of the stages that a rank of the plan holds, with the rank's slices of the
  /// parameters and the plan's builder. `groups` is for layers that communicate, whose ranks must
  /// build them at the same point of the program; it must outlive the model.
  Gpt(const Plan& plan, const Place& place, int stage, Device device,
      Storage storage = Storage::own, AxisGroups* groups = nullptr);
  /// Builds the stage of a rank that holds exactly one (Place::only_stage).
  Gpt(const Plan& plan, const Place& place, Device device, Storage storage = Storage::own,
      AxisGroups* groups = nullptr);
  ~Gpt();
  Gpt(const Gpt&) = delete;
  Gpt& operator=(const Gpt&) = delete;

  /// Computes y (b, s, h) from x (b, s, h). On the first stage x is empty (the stage reads the
  /// tokens); on the last stage y is empty and the loss is in the stash.
  Tensor forward(const Microbatch& microbatch, Tensor x, Stash& stash);

  /// Returns this microbatch's share of the batch's mean loss. The value is bitwise identical
  /// however the model is split. Call it between the microbatch's forward() and backward(). Waits
  /// for the device; for several microbatches, use Losses. Throws std::logic_error unless this is
  /// the last stage.
  double loss(const Stash& stash);
  /// Like loss(), without waiting: launches the sum of the microbatch's losses into `sum`, one
  /// double (Kernels::sums), and returns the factor that makes it the share.
  double launch_loss(const Stash& stash, View sum);

  /// Computes dx from dy, both (b, s, h), and adds to the parameters' gradients. dy is empty on the
  /// last stage, and dx is empty on the first. Empties the stash.
  Tensor backward(Tensor dy, Stash& stash);
  /// The two halves of backward(); together their results are bitwise identical to those of
  /// backward(). The input half keeps in the stash the tensors that the weight half needs.
  Tensor backward_input(Tensor dy, Stash& stash);
  void backward_weight(Stash& stash);

  /// Adds the tied head's gradient to the token table's gradient from the embedding. Has an effect
  /// at most once between two calls of zero_gradients(). backward() calls this function for a
  /// batch's last microbatch. Does nothing if head and embedding are on different stages: then
  /// those stages' ranks sum the two gradients with an all-reduce, and the result is bitwise
  /// identical.
  void finish_gradients();
  void zero_gradients();

  /// Returns logits (b, s, V) for tokens (b, s) i32 and keeps no activations. Used for sampling;
  /// requires the whole model.
  Tensor logits(View tokens);

  /// Returns the parameters in ascending order; the model owns them.
  const std::vector<Parameter*>& parameters() const { return parameters_; }
  const std::vector<Unit>& units() const { return units_; }
  /// Returns the units as plain values, from which layouts are built. The result equals that of
  /// Plan::units for the model's plan.
  std::vector<StoredUnit> stored_units() const;
  /// Returns the parameter whose ParameterSpec::order is `order`. Throws std::out_of_range if the
  /// model has no such parameter.
  Parameter& parameter(int order) const;

  const GptConfig& config() const { return config_; }
  const StageLayers& stage() const { return stage_; }
  Device device() const { return device_; }

 private:
  friend class HookScope;
  Gpt(const GptConfig& config, Device device, StageLayers stage, std::uint64_t seed,
      const ModelBuilder& builder, Storage storage, const std::map<int, Slice>& slices,
      AxisGroups* groups, ContextLayout context);

  /// These functions call `hook` for every technique. inwards() starts with the outermost
  /// technique, outwards() with the innermost.
  void inwards(void (LayerHooks::*hook)(const Unit&), const Unit& unit);
  void outwards(void (LayerHooks::*hook)(const Unit&), const Unit& unit);
  void weight_half_done(const Unit& unit, bool last);
  const Unit& unit_of_block(std::size_t block) const {
    return units_[block + (embedding_ ? 1 : 0)];
  }
  /// While the block runs, new tensors belong to its layer.
  MemoryLayer layer_of_block(std::size_t block) const {
    return {device_.memory, stage_.first + static_cast<int>(block)};
  }

  GptConfig config_;
  Device device_;
  StageLayers stage_;
  std::shared_ptr<const RotaryTable> rotary_;  ///< of a Llama
  std::unique_ptr<TokenLayer> embedding_;
  std::vector<std::unique_ptr<Layer>> blocks_;
  std::unique_ptr<Layer> head_;
  std::unique_ptr<LossLayer> loss_;
  /// The tied head's contribution to the token table's gradient; empty unless this stage has both
  /// the embedding and the head.
  Tensor tied_gradient_;
  bool tied_is_added_ = false;
  std::vector<Parameter*> parameters_;
  std::vector<Unit> units_;
  std::vector<LayerHooks*> hooks_;  ///< outermost first
};

/// Runs the forward and backward passes of all microbatches through a whole model, in order.
/// Accumulates the gradients of the batch's mean loss, or of this replica's share of it. Returns
/// that loss or share.
BatchLoss accumulate_gradients(Gpt& model, const Batch& batch);

}  // namespace lockstep
