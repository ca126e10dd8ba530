#include "core/model/adamw.h"

#include <algorithm>
#include <cmath>

namespace lockstep {

double gradient_norm(std::vector<OrderedSquare> squares) {
  std::ranges::sort(squares);
  double sum = 0;
  for (const auto& [order, square] : squares) sum += square;
  return std::sqrt(sum);
}

AdamW::AdamW(std::vector<Parameter*> parameters, Device device, AdamWOptions options)
    : parameters_(std::move(parameters)), device_(device), options_(options) {
  const auto zeros = [&](const Shape& shape) {
    Tensor tensor{device_.memory, shape, MemoryCategory::optimizer, DType::f32, "Adam moments"};
    fill_with_zeros(device_, tensor);
    return tensor;
  };
  std::erase_if(parameters_, [](const Parameter* parameter) { return parameter->frozen; });
  for (Parameter* parameter : parameters_) {
    const View value = parameter->value;
    const MemoryLayer layer{device_.memory, parameter->layer()};
    State& state = states_.emplace_back();
    state.momentum = zeros(value.shape);
    state.variance = zeros(value.shape);
    if (!is_narrow(value.dtype) || !options_.masters) continue;
    state.master = Tensor{device_.memory, value.shape, MemoryCategory::optimizer, DType::f32,
                          "master weights"};
    parameter->master = state.master;
    if (value) device_.compute.kernels().convert(device_.compute.queue(), value, state.master);
  }
  sums_ = DeviceNumbers{device_, parameters_.size()};
}

AdamW::~AdamW() {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i]->master.data == states_[i].master.view().data) parameters_[i]->master = {};
}

std::vector<AdamW::Moments> AdamW::moments() const {
  std::vector<Moments> moments;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    moments.push_back({parameters_[i], states_[i].momentum, states_[i].variance});
  return moments;
}

/// Reduces each gradient to a number. Waits for the device once, for all of them.
std::vector<double> AdamW::reduce(const char* name,
                                  Kernel<void(Queue, Ins, Out32)> Kernels::*kernel) {
  Ins gradients;
  Cost cost;
  for (const Parameter* parameter : parameters_) {
    gradients.emplace_back(parameter->gradient);
    cost.bytes += static_cast<double>(parameter->gradient.bytes());
  }
  device_.compute.launch(Span{.name = name}, cost, [&](const Kernels& k, Queue q) {
    (k.*kernel)(q, gradients, sums_.view());
  });
  return sums_.read();
}

std::vector<OrderedSquare> AdamW::squares() {
  const std::vector<double> sums = reduce("gradient_norm", &Kernels::sums_of_squares);
  std::vector<OrderedSquare> result;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    result.emplace_back(parameters_[i]->order, sums[i]);
  return result;
}

bool AdamW::finite() {
  const std::vector<double> counts = reduce("finite", &Kernels::counts_of_not_finite);
  return std::ranges::all_of(counts, [](double count) { return count == 0; });
}

float AdamW::clip_scale(double norm) const {
  if (options_.clip <= 0) return 1;
  return static_cast<float>(std::min(1.0, static_cast<double>(options_.clip) / (norm + 1e-6)));
}

void AdamW::step(float gradient_scale) {
  device_.compute.range(Span{.name = "optimizer", .category = Category::optimizer},
                        [&] { update(gradient_scale); });
}

void AdamW::step() {
  device_.compute.range(Span{.name = "optimizer", .category = Category::optimizer}, [&] {
    update(options_.clip > 0 ? clip_scale(gradient_norm(squares())) : 1.0F);
  });
}

void AdamW::update(float gradient_scale) {
  ++steps_;
  // Reads the value (or its master), the gradient and both moments, and writes all but the
  // gradient. In f32 that is 7 accesses of 4 bytes per element, 28 bytes. With a master it is 6
  // accesses of 4 bytes, plus 2 bytes each for the gradient and the value: again 28 bytes.
  Cost cost;
  for (const Parameter* parameter : parameters_)
    cost.bytes += 28 * static_cast<double>(parameter->value.elements());
  // Two lists: biases and the norms' parameters do not decay.
  std::vector<AdamWTensor> decaying, others;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = *parameters_[i];
    AdamWTensor tensor{.parameter = parameter.value,
                       .gradient = parameter.gradient,
                       .momentum = states_[i].momentum,
                       .variance = states_[i].variance,
                       .rounded = {}};
    if (parameter.master) {
      tensor.parameter = parameter.master;
      tensor.rounded = parameter.value;
    }
    (parameter.decay ? decaying : others).push_back(tensor);
  }
  AdamWStep step{.learning_rate = options_.learning_rate,
                 .beta1 = options_.beta1,
                 .beta2 = options_.beta2,
                 .epsilon = options_.epsilon,
                 .weight_decay = options_.weight_decay,
                 .gradient_scale = gradient_scale,
                 .step = steps_};
  device_.compute.launch(Span{.name = "adamw"}, cost, [&](const Kernels& k, Queue q) {
    k.adamw(q, decaying, step);
    step.weight_decay = 0;
    k.adamw(q, others, step);
  });
}

}  // namespace lockstep
