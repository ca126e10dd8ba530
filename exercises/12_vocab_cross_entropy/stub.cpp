#include "exercises/12_vocab_cross_entropy/task.h"

namespace lockstep::exercises {

Loss cross_entropy(World& ranks, const Slice& logits, const std::vector<int>& targets) {
  // Delete these lines and write yours.
  (void)ranks, (void)logits, (void)targets;
  not_written();
}

}  // namespace lockstep::exercises
