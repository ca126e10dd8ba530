// diagnosis: had not yet left there
#include <cmath>

#include "exercises/12_vocab_cross_entropy/task.h"

namespace lockstep::exercises {

Loss cross_entropy(World& ranks, const Slice& logits, const std::vector<int>& targets) {
  const auto n = static_cast<std::size_t>(logits.positions);
  std::vector<float> m(n, -3e38F), s(2 * n, 0.0F);
  for (std::size_t p = 0; p < n; ++p)
    for (int v = 0; v < logits.columns; ++v) m[p] = std::max(m[p], logits(static_cast<int>(p), v));
  all_reduce_max(ranks, m);
  for (std::size_t p = 0; p < n; ++p)
    for (int v = 0; v < logits.columns; ++v) {
      const float z = logits(static_cast<int>(p), v) - m[p];
      s[p] += std::exp(z);
      if (logits.first + v == targets[p]) s[n + p] = z;
    }
  Work w = all_reduce(ranks, s);
  Loss loss{std::vector<float>(n), logits};
  for (std::size_t p = 0; p < n; ++p) loss.losses[p] = std::log(s[p]) - s[n + p];
  w.wait();
  for (std::size_t p = 0; p < n; ++p)
    for (int v = 0; v < logits.columns; ++v)
      loss.gradient(static_cast<int>(p), v) =
          std::exp(logits(static_cast<int>(p), v) - m[p]) / s[p] -
          (logits.first + v == targets[p] ? 1.0F : 0.0F);
  return loss;
}

}  // namespace lockstep::exercises
