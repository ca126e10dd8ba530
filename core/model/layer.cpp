#include "core/model/layer.h"

#include <ranges>

namespace lockstep {

Tensor Chain::forward(Tensor x, Stash& stash) {
  for (auto& layer : layers_) x = layer->forward(std::move(x), stash);
  return x;
}

Tensor Chain::backward_input(Tensor dy, Stash& stash) {
  for (auto& layer : layers_ | std::views::reverse)
    dy = layer->backward_input(std::move(dy), stash);
  return dy;
}

void Chain::backward_weight(Stash& stash) {
  for (auto& layer : layers_ | std::views::reverse) layer->backward_weight(stash);
}

Tensor Chain::backward(Tensor dy, Stash& stash) {
  for (auto& layer : layers_ | std::views::reverse) dy = layer->backward(std::move(dy), stash);
  return dy;
}

void Chain::collect(std::vector<Parameter*>& parameters) {
  for (auto& layer : layers_) layer->collect(parameters);
}

}  // namespace lockstep
