#include "core/model/layer_hooks.h"

#include <utility>

#include "core/model/gpt.h"

namespace lockstep {

HookScope::HookScope(Gpt& model, LayerHooks& hooks) : model_(&model), hooks_(&hooks) {
  model.hooks_.push_back(&hooks);
}
HookScope::~HookScope() {
  if (model_ != nullptr) std::erase(model_->hooks_, hooks_);
}
HookScope::HookScope(HookScope&& other) noexcept {
  *this = std::move(other);
}
HookScope& HookScope::operator=(HookScope&& other) noexcept {
  if (model_ != nullptr) std::erase(model_->hooks_, hooks_);
  model_ = std::exchange(other.model_, nullptr);
  hooks_ = std::exchange(other.hooks_, nullptr);
  return *this;
}

}  // namespace lockstep
