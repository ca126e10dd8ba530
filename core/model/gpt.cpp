#include "core/model/gpt.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "core/base/error.h"
#include "core/model/builder.h"
#include "core/model/head.h"
#include "core/model/losses.h"
#include "core/model/ops.h"
#include "core/model/rotary.h"

namespace lockstep {

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
         const ModelBuilder& builder, Storage storage, const std::map<int, Slice>& slices,
         AxisGroups* groups, ContextLayout context)
    : config_(valid(config)),
      device_(device),
      stage_(stage),
      rotary_(config_.llama ? std::make_shared<const RotaryTable>(config_, device_) : nullptr) {
  const auto site = [&](int layer) {
    return LayerSite{.config = config_,
                     .device = device_,
                     .seed = seed,
                     .layer = layer,
                     .storage = storage,
                     .slices = slices.empty() ? nullptr : &slices,
                     .groups = groups,
                     .context = context,
                     .rotary = rotary_};
  };
  const LayerSite ends = site(-1);
  if (stage_.embedding) {
    embedding_ = builder.embedding(ends);
    units_.push_back(unit_of(0, *embedding_));
  }
  for (int layer = stage_.first; layer < stage_.last; ++layer) {
    blocks_.push_back(builder.block(site(layer)));
    units_.push_back(unit_of(layer + 1, *blocks_.back()));
  }
  if (stage_.head) {
    Parameter* table = config_.tied && embedding_ ? &embedding_->table() : nullptr;
    if (table != nullptr && !table->frozen) {
      tied_gradient_ = Tensor{device_.memory, table->slice.local(), MemoryCategory::gradients,
                              table->dtype, "tied head"};
      fill_with_zeros(device_, tied_gradient_);
    }
    head_ = std::make_unique<Head>(ends, builder, table, tied_gradient_);
    loss_ = builder.loss(ends);
    units_.push_back(unit_of(config_.layers + 1, *head_));
  }
  for (const Unit& unit : units_)
    for (Parameter* parameter : unit.parameters)
      if (std::ranges::find(parameters_, parameter) == parameters_.end())
        parameters_.push_back(parameter);
  std::ranges::sort(parameters_, {}, &Parameter::order);
}

Gpt::Gpt(const GptConfig& config, Device device, StageLayers stage, std::uint64_t seed,
         const ModelBuilder& builder, Storage storage)
    : Gpt(config, device, stage, seed, builder, storage, {}, nullptr, ContextLayout::contiguous) {}

namespace {

std::map<int, Slice> slices_of(const Plan& plan, const Place& place, int stage) {
  std::map<int, Slice> slices;
  for (const Held& held : place.held)
    if (held.stage == stage)
      slices[plan.parameters()[static_cast<std::size_t>(held.parameter)].order] = held.slice;
  return slices;
}

}  // namespace

Gpt::Gpt(const Plan& plan, const Place& place, int stage, Device device, Storage storage,
         AxisGroups* groups)
    : Gpt(plan.model(), device, plan.layers_of(stage), plan.seed, builder_of(plan), storage,
          slices_of(plan, place, stage), groups, plan.batch.context) {}

Gpt::Gpt(const Plan& plan, const Place& place, Device device, Storage storage, AxisGroups* groups)
    : Gpt(plan, place, place.only_stage(), device, storage, groups) {}

Gpt::~Gpt() = default;

std::vector<StoredUnit> Gpt::stored_units() const {
  std::vector<SlicedParameter> held;
  for (const Parameter* parameter : parameters_) held.push_back({*parameter, parameter->slice});
  return lockstep::stored_units(config_, stage_, held);
}

Parameter& Gpt::parameter(int order) const {
  const auto found = std::ranges::lower_bound(parameters_, order, {}, &Parameter::order);
  if (found == parameters_.end() || (*found)->order != order)
    throw std::out_of_range{fmt::format("this model has no parameter of order {}", order)};
  return **found;
}

void Gpt::inwards(void (LayerHooks::*hook)(const Unit&), const Unit& unit) {
  for (LayerHooks* hooks : hooks_) (hooks->*hook)(unit);
}

void Gpt::outwards(void (LayerHooks::*hook)(const Unit&), const Unit& unit) {
  for (auto hooks = hooks_.rbegin(); hooks != hooks_.rend(); ++hooks) ((*hooks)->*hook)(unit);
}

Tensor Gpt::forward(const Microbatch& microbatch, Tensor x, Stash& stash) {
  stash.set_microbatch(microbatch);
  const auto with_hooks = [&](const Unit& unit, auto&& run) {
    inwards(&LayerHooks::before_forward, unit);
    run();
    outwards(&LayerHooks::after_forward, unit);
  };
  if (embedding_)
    with_hooks(units_.front(), [&] { x = embedding_->forward(microbatch.tokens, stash); });
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    with_hooks(unit_of_block(i), [&] {
      const MemoryLayer layer = layer_of_block(i);
      x = blocks_[i]->forward(std::move(x), stash);
    });
  if (!head_) return x;
  with_hooks(units_.back(), [&] {
    Tensor logits = head_->forward(std::move(x), stash);
    loss_->forward(std::move(logits), microbatch.targets, microbatch.token_weight, stash);
  });
  return {};
}

double Gpt::launch_loss(const Stash& stash, View sum) {
  if (!loss_) throw std::logic_error{"Gpt::loss: only the last stage has the loss"};
  return loss_->launch_sum(stash, sum);
}

double Gpt::loss(const Stash& stash) {
  Losses one{device_, 1};
  one.take(0, *this, stash);
  return one.total();
}

void Gpt::weight_half_done(const Unit& unit, bool last) {
  if (last && embedding_ && unit.index == 0) finish_gradients();
  outwards(&LayerHooks::after_backward, unit);
  if (last) outwards(&LayerHooks::gradients_ready, unit);
}

Tensor Gpt::backward(Tensor dy, Stash& stash) {
  const bool last = stash.microbatch().last;
  const auto with_hooks = [&](const Unit& unit, auto&& run) {
    inwards(&LayerHooks::before_backward, unit);
    run();
    outwards(&LayerHooks::after_backward_input, unit);
    weight_half_done(unit, last);
  };
  if (head_)
    with_hooks(units_.back(), [&] { dy = head_->backward(loss_->backward(stash), stash); });
  for (std::size_t i = blocks_.size(); i-- > 0;)
    with_hooks(unit_of_block(i), [&] {
      const MemoryLayer layer = layer_of_block(i);
      dy = blocks_[i]->backward(std::move(dy), stash);
    });
  if (!embedding_) return dy;
  with_hooks(units_.front(), [&] {
    embedding_->backward_input(std::move(dy), stash);
    embedding_->backward_weight(stash);
  });
  return {};
}

Tensor Gpt::backward_input(Tensor dy, Stash& stash) {
  const auto with_hooks = [&](const Unit& unit, auto&& run) {
    inwards(&LayerHooks::before_backward, unit);
    run();
    outwards(&LayerHooks::after_backward_input, unit);
  };
  if (head_)
    with_hooks(units_.back(), [&] { dy = head_->backward_input(loss_->backward(stash), stash); });
  for (std::size_t i = blocks_.size(); i-- > 0;)
    with_hooks(unit_of_block(i), [&] {
      const MemoryLayer layer = layer_of_block(i);
      dy = blocks_[i]->backward_input(std::move(dy), stash);
    });
  if (!embedding_) return dy;
  with_hooks(units_.front(), [&] { embedding_->backward_input(std::move(dy), stash); });
  return {};
}

void Gpt::backward_weight(Stash& stash) {
  const bool last = stash.microbatch().last;
  if (head_) {
    head_->backward_weight(stash);
    weight_half_done(units_.back(), last);
  }
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    {
      const MemoryLayer layer = layer_of_block(i);
      blocks_[i]->backward_weight(stash);
    }
    weight_half_done(unit_of_block(i), last);
  }
  if (!embedding_) return;
  embedding_->backward_weight(stash);
  weight_half_done(units_.front(), last);
}

void Gpt::finish_gradients() {
  if (!tied_gradient_ || tied_is_added_) return;
  tied_is_added_ = true;
  const View own = embedding_->table().gradient;
  Ops{device_, -1}.add(own, tied_gradient_, own);
}

void Gpt::zero_gradients() {
  Outs gradients;
  for (const Parameter* parameter : parameters_)
    if (parameter->gradient.elements() > 0) gradients.emplace_back(parameter->gradient);
  if (tied_gradient_) gradients.emplace_back(tied_gradient_);
  tied_is_added_ = false;
  Cost cost;
  for (const View& gradient : gradients) cost.bytes += static_cast<double>(gradient.bytes());
  device_.compute.launch(Span{.name = "zero_gradients"}, cost,
                         [&](const Kernels& k, Queue q) { k.fill(q, gradients, 0); });
}

Tensor Gpt::logits(View tokens) {
  if (!embedding_ || !head_) throw std::logic_error{"Gpt::logits: needs the whole model"};
  Tensor positions;
  if (rotary_) {
    std::vector<std::int32_t> places(static_cast<std::size_t>(tokens.shape[1]));
    std::iota(places.begin(), places.end(), 0);
    positions = Tensor{device_.memory, {tokens.shape[1]}, MemoryCategory::activations, DType::i32};
    device_.compute.write(places.data(), positions);
  }
  const auto forget = [&](auto&& run) {
    Stash stash{Microbatch{.tokens = tokens, .targets = {}, .positions = positions}};
    return run(stash);
  };
  Tensor x = forget([&](Stash& stash) { return embedding_->forward(tokens, stash); });
  for (auto& block : blocks_)
    x = forget([&](Stash& stash) { return block->forward(std::move(x), stash); });
  return forget([&](Stash& stash) { return head_->forward(std::move(x), stash); });
}

BatchLoss accumulate_gradients(Gpt& model, const Batch& batch) {
  Losses losses{model.device(), batch.microbatches.size()};
  Stream& compute = model.device().compute;
  for (int i = 0; i < static_cast<int>(batch.microbatches.size()); ++i) {
    const Microbatch& microbatch = batch.microbatches[static_cast<std::size_t>(i)];
    Stash stash;
    compute.range({.name = "forward", .category = Category::forward, .microbatch = i}, [&] {
      model.forward(microbatch, {}, stash);
      losses.take(static_cast<std::size_t>(i), model, stash);
    });
    record_memory(model.device());
    compute.range({.name = "backward", .category = Category::backward, .microbatch = i},
                  [&] { model.backward({}, stash); });
    record_memory(model.device());
  }
  return losses.total();
}

}  // namespace lockstep
