#include "core/model/cross_entropy.h"

namespace lockstep {

void CrossEntropy::forward(Tensor logits, View targets, float scale, Stash& stash) {
  const std::int64_t tokens = logits.shape().rows();
  Saved& saved = stash.of<Saved>(this);
  saved.losses = ops_.statistic({tokens}, "losses");
  saved.lse = ops_.statistic({tokens}, "losses");
  saved.targets = targets.reshaped({tokens});
  saved.scale = scale;
  ops_.cross_entropy_forward(logits, saved.targets, saved.losses, saved.lse);
  saved.logits = std::move(logits);
}

double CrossEntropy::launch_sum(const Stash& stash, View sum) {
  const Saved& saved = stash.saved<Saved>(this);
  ops_.sum(saved.losses, sum);
  return saved.scale;
}

Tensor CrossEntropy::backward(Stash& stash) {
  Saved& saved = stash.saved<Saved>(this);
  Tensor logits = std::move(saved.logits);
  ops_.cross_entropy_backward(logits, saved.targets, saved.lse, saved.scale, logits);
  stash.drop(this);
  return logits;
}

}  // namespace lockstep
