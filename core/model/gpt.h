#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/model/factory.h"
#include "core/model/layer.h"

namespace lockstep {

/// Which part of a model a pipeline stage holds: blocks [first, last), and what lies at the ends.
struct StageLayers {
  int first = 0;
  int last = 0;
  bool embedding = false;
  bool head = false;  ///< final LayerNorm, output head and loss

  int count() const { return last - first; }
  /// The model on one device.
  static StageLayers whole(const GptConfig& config);
  /// Stage `stage` of `stages`: contiguous blocks, as even as can be, the earlier stages having one
  /// more where it does not come out. Throws UsageError, naming --layers, for more stages than
  /// blocks.
  static StageLayers of(const GptConfig& config, int stage, int stages);
};

/// What is gathered, run and discarded as one: the embedding, a block, or the head.
struct Unit {
  int index = 0;  ///< in the whole model: 0 is the embedding, 1 .. L the blocks, L + 1 the head
  /// In order. A tied head beside its embedding has the token table here too.
  std::vector<Parameter*> parameters;
};

/// What a lesson does around each unit: gather and discard parameters (ZeRO-3), send gradients off
/// while backward goes on (data parallel). A unit's parameters are read from before_forward to
/// after_forward and from before_backward to after_backward. With the halves apart, before_backward
/// comes before the input half and after_backward after the weight half; by then the unit's
/// gradients have this microbatch's share. gradients_ready comes once a step, after the backward of
/// the batch's last microbatch: nothing will be added to the unit's gradients any more (a tied
/// table is the embedding's, the head's use counted in).
class LayerHooks {
 public:
  virtual ~LayerHooks() = default;
  virtual void before_forward(const Unit&) {}
  virtual void after_forward(const Unit&) {}
  virtual void before_backward(const Unit&) {}
  virtual void after_backward(const Unit&) {}
  virtual void gradients_ready(const Unit&) {}
};

/// GPT-2, or one pipeline stage of it, with explicit forward and backward. Stages composed give,
/// bit for bit, the losses and gradients of the whole model.
class Gpt {
 public:
  /// Builds the layers of `stage` and fills them with initial values that depend only on the seed
  /// and on each element's place in the whole model. Throws UsageError (GptConfig::validate).
  /// `device`'s memory and stream, and `factory` for the length of this call, must outlive it.
  Gpt(const GptConfig& config, Device device, StageLayers stage, std::uint64_t seed,
      const LayerFactory& factory = {}, Storage storage = Storage::own);
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
  /// The hooks must outlive their use; nullptr for none.
  void set_hooks(LayerHooks* hooks);

  const GptConfig& config() const { return config_; }
  const StageLayers& stage() const { return stage_; }
  Device device() const { return device_; }

 private:
  void backward_done(const Unit& unit, bool last);
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
  LayerHooks no_hooks_;
  LayerHooks* hooks_ = &no_hooks_;
};

/// Forward and backward of all microbatches in order on a whole model: the gradients of the batch's
/// mean loss (of this replica's share of it) are added to what is there. Returns the loss, or
/// share.
double accumulate_gradients(Gpt& model, const Batch& batch);

}  // namespace lockstep
