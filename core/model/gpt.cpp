#include "core/model/gpt.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "core/base/error.h"
#include "core/model/head.h"
#include "core/model/ops.h"

namespace lockstep {

StageLayers StageLayers::whole(const GptConfig& config) {
  return {.first = 0, .last = config.layers, .embedding = true, .head = true};
}

StageLayers StageLayers::of(const GptConfig& config, int stage, int stages) {
  if (stages < 1 || stage < 0 || stage >= stages)
    throw std::invalid_argument{fmt::format("stage {} of {}", stage, stages)};
  if (config.layers < stages) {
    throw UsageError{
        fmt::format("--layers {}: {} pipeline stages need at least one layer each; --layers {} or "
                    "at most {} stages would do",
                    config.layers, stages, stages, config.layers)};
  }
  const int each = config.layers / stages, left_over = config.layers % stages;
  const int first = stage * each + std::min(stage, left_over);
  return {.first = first,
          .last = first + each + (stage < left_over ? 1 : 0),
          .embedding = stage == 0,
          .head = stage == stages - 1};
}

namespace {

const GptConfig& valid(const GptConfig& config) {
  config.validate();
  return config;
}

template <class Part>
Unit unit_of(int index, Part& part) {
  Unit unit{.index = index, .parameters = {}};
  part.collect(unit.parameters);
  return unit;
}

}  // namespace

Gpt::Gpt(const GptConfig& config, Device device, StageLayers stage, std::uint64_t seed,
         const LayerFactory& factory, Storage storage)
    : config_(valid(config)), device_(device), stage_(stage) {
  const LayerSite ends{config_, device_, seed, -1, storage};
  if (stage_.embedding) {
    embedding_ = factory.embedding(ends);
    units_.push_back(unit_of(0, *embedding_));
  }
  for (int layer = stage_.first; layer < stage_.last; ++layer) {
    blocks_.push_back(factory.block({config_, device_, seed, layer, storage}));
    units_.push_back(unit_of(layer + 1, *blocks_.back()));
  }
  if (stage_.head) {
    Parameter* table = config_.tied && embedding_ ? &embedding_->table() : nullptr;
    if (table != nullptr && !table->frozen) {
      tied_gradient_ =
          Tensor{device_.memory, table->shape, MemoryCategory::gradients, table->dtype};
      fill_with_zeros(device_, tied_gradient_);
    }
    head_ = std::make_unique<Head>(ends, factory, table, tied_gradient_);
    loss_ = factory.loss(ends);
    units_.push_back(unit_of(config_.layers + 1, *head_));
  }
  for (const Unit& unit : units_)
    for (Parameter* parameter : unit.parameters)
      if (std::ranges::find(parameters_, parameter) == parameters_.end())
        parameters_.push_back(parameter);
  std::ranges::sort(parameters_, {}, &Parameter::order);
}

Gpt::~Gpt() = default;

void Gpt::set_hooks(LayerHooks* hooks) {
  hooks_ = hooks != nullptr ? hooks : &no_hooks_;
}

namespace {

/// What the model itself remembers of a microbatch.
struct Remembered {
  bool last = false;
};

}  // namespace

Tensor Gpt::forward(const Microbatch& microbatch, Tensor x, Stash& stash) {
  stash.of<Remembered>(this).last = microbatch.last;
  const auto with_hooks = [&](const Unit& unit, auto&& run) {
    hooks_->before_forward(unit);
    run();
    hooks_->after_forward(unit);
  };
  if (embedding_)
    with_hooks(units_.front(), [&] { x = embedding_->forward(microbatch.tokens, stash); });
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    with_hooks(unit_of_block(i), [&] { x = blocks_[i]->forward(std::move(x), stash); });
  if (!head_) return x;
  with_hooks(units_.back(), [&] {
    Tensor logits = head_->forward(std::move(x), stash);
    loss_->forward(std::move(logits), microbatch.targets, microbatch.loss_scale, stash);
  });
  return {};
}

double Gpt::loss(const Stash& stash) {
  if (!loss_) throw std::logic_error{"Gpt::loss: only the last stage has the loss"};
  return loss_->value(stash);
}

void Gpt::backward_done(const Unit& unit, bool last) {
  if (last && embedding_ && unit.index == 0) finish_gradients();
  hooks_->after_backward(unit);
  if (last) hooks_->gradients_ready(unit);
}

Tensor Gpt::backward(Tensor dy, Stash& stash) {
  const bool last = stash.saved<Remembered>(this).last;
  stash.drop(this);
  if (head_) {
    hooks_->before_backward(units_.back());
    dy = head_->backward(loss_->backward(stash), stash);
    backward_done(units_.back(), last);
  }
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    hooks_->before_backward(unit_of_block(i));
    dy = blocks_[i]->backward(std::move(dy), stash);
    backward_done(unit_of_block(i), last);
  }
  if (!embedding_) return dy;
  hooks_->before_backward(units_.front());
  embedding_->backward_input(std::move(dy), stash);
  embedding_->backward_weight(stash);
  backward_done(units_.front(), last);
  return {};
}

Tensor Gpt::backward_input(Tensor dy, Stash& stash) {
  if (head_) {
    hooks_->before_backward(units_.back());
    dy = head_->backward_input(loss_->backward(stash), stash);
  }
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    hooks_->before_backward(unit_of_block(i));
    dy = blocks_[i]->backward_input(std::move(dy), stash);
  }
  if (!embedding_) return dy;
  hooks_->before_backward(units_.front());
  embedding_->backward_input(std::move(dy), stash);
  return {};
}

void Gpt::backward_weight(Stash& stash) {
  const bool last = stash.saved<Remembered>(this).last;
  stash.drop(this);
  if (head_) {
    head_->backward_weight(stash);
    backward_done(units_.back(), last);
  }
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    blocks_[i]->backward_weight(stash);
    backward_done(unit_of_block(i), last);
  }
  if (!embedding_) return;
  embedding_->backward_weight(stash);
  backward_done(units_.front(), last);
}

void Gpt::finish_gradients() {
  if (!tied_gradient_ || tied_is_added_) return;
  tied_is_added_ = true;
  const View own = embedding_->table().gradient;
  Ops{device_, -1}.add(own, tied_gradient_, own);
}

void Gpt::zero_gradients() {
  std::vector<View> gradients;
  for (const Parameter* parameter : parameters_)
    if (parameter->gradient.elements() > 0) gradients.push_back(parameter->gradient);
  if (tied_gradient_) gradients.push_back(tied_gradient_);
  tied_is_added_ = false;
  Cost cost;
  for (const View& gradient : gradients) cost.bytes += static_cast<double>(gradient.bytes());
  device_.compute.launch(Span{.name = "zero_gradients"}, cost, [&](const Kernels& k, Queue q) {
    for (const View& gradient : gradients) k.fill(q, gradient, 0);
  });
}

Tensor Gpt::logits(View tokens) {
  if (!embedding_ || !head_) throw std::logic_error{"Gpt::logits: wants the whole model"};
  const auto forget = [](auto&& run) {
    Stash stash;
    return run(stash);
  };
  Tensor x = forget([&](Stash& stash) { return embedding_->forward(tokens, stash); });
  for (auto& block : blocks_)
    x = forget([&](Stash& stash) { return block->forward(std::move(x), stash); });
  return forget([&](Stash& stash) { return head_->forward(std::move(x), stash); });
}

double accumulate_gradients(Gpt& model, const Batch& batch) {
  double loss = 0;
  Stream& compute = model.device().compute;
  for (int i = 0; i < static_cast<int>(batch.microbatches.size()); ++i) {
    const Microbatch& microbatch = batch.microbatches[static_cast<std::size_t>(i)];
    Stash stash;
    compute.range({.name = "forward", .category = Category::forward, .microbatch = i}, [&] {
      model.forward(microbatch, {}, stash);
      loss += model.loss(stash);
    });
    record_memory(model.device());
    compute.range({.name = "backward", .category = Category::backward, .microbatch = i},
                  [&] { model.backward({}, stash); });
    record_memory(model.device());
  }
  return loss;
}

}  // namespace lockstep
