#pragma once

#include <vector>

#include "core/model/parameter.h"

namespace lockstep {

class Gpt;

/// A part of the model whose parameters ZeRO-3 unshards and reshards together: the embedding, a
/// block, or the head.
struct Unit {
  int index = 0;  ///< in the whole model: 0 is the embedding, 1 .. L the blocks, L + 1 the head
  /// The unit's parameters, in ascending order. If a tied head is on the same stage as the
  /// embedding, the head's unit includes the token table too.
  std::vector<Parameter*> parameters;
};

/// Callbacks before and after each unit of a model. ZeRO-3 uses them to unshard and reshard
/// parameters, and data parallelism uses them to send gradients while the backward pass continues.
/// The two halves of the backward pass may run together, or with halves of other microbatches in
/// between. The model reads a unit's parameters between before_forward and after_forward, and
/// between before_backward and after_backward_input. It adds to the unit's gradients between
/// before_backward and after_backward (norms' gradients are added in the input half).
///
/// Several techniques can add hooks to one model. They nest: hooks added later are inside those
/// added earlier. Before a unit, the innermost technique's hook runs last; after the unit, it runs
/// first.
class LayerHooks {
 public:
  virtual ~LayerHooks() = default;
  virtual void before_forward(const Unit&) {}
  virtual void after_forward(const Unit&) {}
  virtual void before_backward(const Unit&) {}
  /// Called when the input half of the backward pass is done.
  virtual void after_backward_input(const Unit&) {}
  /// Called when the weight half is done, so this microbatch's gradients have been added.
  virtual void after_backward(const Unit&) {}
  /// Called once per step, in the last microbatch's backward pass, after the model has made its
  /// last addition to the unit's gradients. The embedding's gradients include a tied head's
  /// contribution if the head is on the same stage; otherwise PipelineUpdate adds that
  /// contribution.
  virtual void gradients_ready(const Unit&) {}
};

/// Registers hooks with a model, and removes them when destroyed; hooks of other techniques stay.
/// The model and the hooks must outlive the scope.
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

}  // namespace lockstep
