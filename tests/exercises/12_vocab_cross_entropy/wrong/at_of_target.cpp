// diagnosis: the answer uses an element that is not there
#include <cmath>

#include "exercises/12_vocab_cross_entropy/task.h"

namespace lockstep::exercises {

Loss cross_entropy(World& ranks, const Slice& logits, const std::vector<int>& targets) {
  const auto n = static_cast<std::size_t>(logits.positions);
  std::vector<float> m(n, -3e38F), s(2 * n, 0.0F);
  for (std::size_t p = 0; p < n; ++p)
    for (int v = 0; v < logits.columns; ++v) m[p] = std::max(m[p], logits(static_cast<int>(p), v));
  all_reduce_max(ranks, m);
  for (std::size_t p = 0; p < n; ++p) {
    for (int v = 0; v < logits.columns; ++v)
      s[p] += std::exp(logits(static_cast<int>(p), v) - m[p]);
    s[n + p] = logits.numbers.at(p * static_cast<std::size_t>(logits.columns) +
                                 static_cast<std::size_t>(targets[p] - logits.first)) -
               m[p];
  }
  all_reduce(ranks, s).wait();
  Loss loss{std::vector<float>(n), logits};
  for (std::size_t p = 0; p < n; ++p) loss.losses[p] = std::log(s[p]) - s[n + p];
  return loss;
}

}  // namespace lockstep::exercises
