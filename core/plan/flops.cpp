#include "core/plan/flops.h"

namespace lockstep {

namespace {

/// The FLOPs of the forward pass per token, with attention counted in full.
struct ForwardFlops {
  explicit ForwardFlops(const GptConfig& config) {
    const double L = config.layers, h = config.hidden, s = config.sequence, V = config.vocabulary;
    products = 2 * L * config.matrix_elements_per_block();
    attention = 4 * L * s * h;
    head = 2 * V * h;
  }
  double products, attention, head;
};

}  // namespace

double published_flops_per_token(const GptConfig& config) {
  const ForwardFlops forward{config};
  return 3 * (forward.products + forward.attention + forward.head);
}

double published_flops_per_token_with_selective_recomputation(const GptConfig& config) {
  return published_flops_per_token(config) + 3 * ForwardFlops{config}.attention;
}

double published_flops_per_token_with_full_recomputation(const GptConfig& config) {
  const ForwardFlops forward{config};
  return 4 * (forward.products + forward.attention) + 3 * forward.head;
}

}  // namespace lockstep
