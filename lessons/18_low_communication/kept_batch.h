#pragma once

#include <memory>
#include <vector>

#include "core/model/data.h"

namespace lockstep {

/// A batch whose microbatches outlive the step that they belong to, for a pipeline that is not
/// empty at the end of a step. Does not keep document masks.
class KeptBatch {
 public:
  explicit KeptBatch(const Batch& batch)
      : tokens_(batch.tokens),
        targets_(batch.targets),
        positions_(batch.positions),
        copy_(batch.copy),
        microbatches_(batch.microbatches) {
    if (copy_) return;  // the views are of the copy on the GPU
    for (Microbatch& microbatch : microbatches_) {
      move(microbatch.tokens, batch.tokens, tokens_);
      move(microbatch.targets, batch.targets, targets_);
      move(microbatch.positions, batch.positions, positions_);
    }
  }

  const Microbatch& operator[](int i) const { return microbatches_[static_cast<std::size_t>(i)]; }

 private:
  using Numbers = std::vector<std::int32_t>;

  static void move(View& view, const Numbers& from, Numbers& to) {
    if (view) view.data = to.data() + (view.i32() - from.data());
  }

  Numbers tokens_, targets_, positions_;
  std::shared_ptr<void> copy_;
  std::vector<Microbatch> microbatches_;
};

}  // namespace lockstep
