#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/model/builder.h"
#include "core/model/layer.h"
#include "core/plan/stage_layers.h"

namespace lockstep {

/// What is gathered, run and discarded as one: the embedding, a block, or the head.
struct Unit {
  int index = 0;  ///< in the whole model: 0 is the embedding, 1 .. L the blocks, L + 1 the head
  /// In order. A tied head beside its embedding has the token table here too.
  std::vector<Parameter*> parameters;
};

/// What a technique does around each unit: gather and discard parameters (ZeRO-3), send gradients
/// off while backward goes on (data parallel). Backward may come whole, or as its two halves with
/// halves of other microbatches in between. A unit's parameters are read from before_forward to
/// after_forward, and from before_backward to after_backward_input. Its gradients are added to from
/// before_backward (LayerNorm's already in the input half) to after_backward.
///
/// Several techniques can be on one model. They nest: of two, the one that was added later is the
/// inner one. Its `before_` hooks run last, and its other hooks run first.
class LayerHooks {
 public:
  virtual ~LayerHooks() = default;
  virtual void before_forward(const Unit&) {}
  virtual void after_forward(const Unit&) {}
  virtual void before_backward(const Unit&) {}
  /// The input half is done.
  virtual void after_backward_input(const Unit&) {}
  /// The weight half is done: this microbatch's gradients are added.
  virtual void after_backward(const Unit&) {}
  /// Once per step, after the last backward of this stage: the model adds nothing more to the
  /// unit's gradients. The embedding's include those of a tied head, if that is on the same stage;
  /// otherwise PipelineUpdate adds them.
  virtual void gradients_ready(const Unit&) {}
};

class Gpt;

/// Hooks on a model, until this is destroyed; those of other techniques stay. The model and the
/// hooks must outlive it.
class [[nodiscard]] HookScope {
 public:
  HookScope() = default;
  HookScope(Gpt& model, LayerHooks& hooks);
  ~HookScope();
  HookScope(HookScope&& other) noexcept;
  HookScope& operator=(HookScope&& other) noexcept;

 private:
  Gpt* model_ = nullptr;
  LayerHooks* hooks_ = nullptr;
};

/// GPT-2, or one pipeline stage of it, with explicit forward and backward. Stages composed give,
/// bit for bit, the losses and gradients of the whole model.
class Gpt {
 public:
  /// Builds the layers of `stage` and fills them with initial values that depend only on the seed
  /// and on each element's place in the whole model. Throws UsageError (GptConfig::validate).
  /// `device`'s memory and stream, and `builder` for the length of this call, must outlive it.
  Gpt(const GptConfig& config, Device device, StageLayers stage, std::uint64_t seed,
      const ModelBuilder& builder = {}, Storage storage = Storage::own);
  /// One of the stages that a rank of the plan holds: its slices of the parameters, built by the
  /// plan's builder.
  Gpt(const Plan& plan, const Place& place, int stage, Device device,
      Storage storage = Storage::own);
  /// The same for a rank with one stage (Place::only_stage).
  Gpt(const Plan& plan, const Place& place, Device device, Storage storage = Storage::own);
  ~Gpt();
  Gpt(const Gpt&) = delete;
  Gpt& operator=(const Gpt&) = delete;

  /// y (b, s, h) from x (b, s, h), which is empty on the first stage (it reads the tokens). On the
  /// last stage y is empty, and the loss is in the stash.
  Tensor forward(const Microbatch& microbatch, Tensor x, Stash& stash);

  /// This microbatch's share of the batch's mean loss, from its stash, after forward and before
  /// backward. Last stage only (std::logic_error elsewhere). The same bits on every split.
  double loss(const Stash& stash);

  /// dx from dy, adding to the gradients; both (b, s, h), dy empty on the last stage, the result
  /// empty on the first. Empties the stash.
  Tensor backward(Tensor dy, Stash& stash);
  /// The two halves of backward; together the same bits. The input half keeps in the stash what the
  /// weight half needs.
  Tensor backward_input(Tensor dy, Stash& stash);
  void backward_weight(Stash& stash);

  /// Adds the gradient of the tied head to that of the token table (first the embedding's use, then
  /// the head's); once, until zero_gradients. Comes by itself with the backward of a batch's last
  /// microbatch. Where the two live on different stages this does nothing, and their gradients are
  /// summed by an all-reduce of the two ranks, with the same bits.
  void finish_gradients();
  void zero_gradients();

  /// (b, s, V) for tokens (b, s) i32, with nothing remembered: for sampling. Whole model only.
  Tensor logits(View tokens);

  /// Ascending order; they stay the model's.
  const std::vector<Parameter*>& parameters() const { return parameters_; }
  const std::vector<Unit>& units() const { return units_; }
  /// The same as values, which layouts are made of. Equal to Plan::units of the model's plan.
  std::vector<StoredUnit> stored_units() const;
  /// The parameter of that order. Throws std::out_of_range if it is not here.
  Parameter& parameter(int order) const;

  const GptConfig& config() const { return config_; }
  const StageLayers& stage() const { return stage_; }
  Device device() const { return device_; }

 private:
  friend class HookScope;
  Gpt(const GptConfig& config, Device device, StageLayers stage, std::uint64_t seed,
      const ModelBuilder& builder, Storage storage, const std::map<int, Slice>& slices);

  /// Calls a hook of every technique: from the outermost, or from the innermost.
  void inwards(void (LayerHooks::*hook)(const Unit&), const Unit& unit);
  void outwards(void (LayerHooks::*hook)(const Unit&), const Unit& unit);
  void weight_half_done(const Unit& unit, bool last);
  const Unit& unit_of_block(std::size_t block) const {
    return units_[block + (embedding_ ? 1 : 0)];
  }

  GptConfig config_;
  Device device_;
  StageLayers stage_;
  std::unique_ptr<TokenLayer> embedding_;
  std::vector<std::unique_ptr<Layer>> blocks_;
  std::unique_ptr<Layer> head_;
  std::unique_ptr<LossLayer> loss_;
  /// The tied head's own gradient of the token table; empty unless both uses are here.
  Tensor tied_gradient_;
  bool tied_is_added_ = false;
  std::vector<Parameter*> parameters_;
  std::vector<Unit> units_;
  std::vector<LayerHooks*> hooks_;  ///< from the outermost
};

/// Forward and backward of all microbatches in order on a whole model: the gradients of the batch's
/// mean loss (of this replica's share of it) are added to what is there. Returns the loss, or
/// share.
double accumulate_gradients(Gpt& model, const Batch& batch);

}  // namespace lockstep
