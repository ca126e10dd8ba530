#pragma once

#include <vector>

#include "core/model/parameter.h"

namespace lockstep {

/// When and how the workers' results are combined (Douillard 2023, algorithm 1).
struct OuterOptions {
  int every = 10;         ///< H, the inner steps between two exchanges
  float rate = 0.7F;      ///< η
  float momentum = 0.9F;  ///< μ
};

/// The outer optimizer of some parameters: SGD with Nesterov momentum, as in PyTorch. It keeps the
/// outer parameters θ, which are the same on all workers, and their momentum u: 4 + 4 bytes per
/// parameter, charged to MemoryCategory::optimizer. A parameter's value, which the inner optimizer
/// updates, is the worker's own.
///
/// Its gradient is the pseudo-gradient g, the mean over the workers of θ - value:
///
///     u = μ u + g,   θ = θ - η (g + μ u)
class OuterOptimizer {
 public:
  /// The outer parameters start as the parameters' values. `parameters` must outlive this object.
  OuterOptimizer(Device device, std::vector<Parameter*> parameters, const OuterOptions& options)
      : device_(device), parameters_(std::move(parameters)), options_(options) {
    const auto state = [&](const Parameter& parameter, const char* kind) {
      const MemoryLayer layer{device_.memory, parameter.layer()};
      return Tensor{device_.memory, parameter.value.shape, MemoryCategory::optimizer, DType::f32,
                    kind};
    };
    for (const Parameter* parameter : parameters_) {
      outer_.push_back(state(*parameter, "outer parameters"));
      momentum_.push_back(state(*parameter, "outer momentum"));
      fill_with_zeros(device_, momentum_.back());
      elements_ += static_cast<double>(parameter->value.elements());
    }
    launch("copy", 8, [&](const Kernels& k, Queue q, std::size_t i) {
      k.copy(q, parameters_[i]->value, outer_[i]);
    });
  }

  /// Writes this worker's θ - value into `differences`, one view for each parameter.
  void subtract(const std::vector<View>& differences) {
    launch("pseudo-gradient", 12, [&](const Kernels& k, Queue q, std::size_t i) {
      k.copy(q, parameters_[i]->value, differences[i]);
      k.scale(q, differences[i], -1);
      k.add(q, outer_[i], differences[i], differences[i]);
    });
  }

  /// Updates the outer parameters with the mean of the workers' differences, whose sums are in
  /// `sums`. Then mixes them into the worker's values: value = mix value + (1 - mix) θ. Overwrites
  /// `sums`.
  void step(const std::vector<View>& sums, int workers, float mix = 0) {
    const float mean = 1.0F / static_cast<float>(workers);
    const double bytes = mix > 0 ? 32 : 28;  // three or four reads, one of them twice; three writes
    launch("nesterov", bytes, [&](const Kernels& k, Queue q, std::size_t i) {
      const View g = sums[i], u = momentum_[i], theta = outer_[i], value = parameters_[i]->value;
      k.scale(q, g, mean);
      k.scale(q, u, options_.momentum);
      k.add(q, u, g, u);
      k.scale(q, g, -options_.rate);
      k.add(q, theta, g, theta);
      k.copy(q, u, g);
      k.scale(q, g, -options_.rate * options_.momentum);
      k.add(q, theta, g, theta);
      if (mix == 0) return k.copy(q, theta, value);
      k.copy(q, theta, g);
      k.scale(q, g, 1 - mix);
      k.scale(q, value, mix);
      k.add(q, value, g, value);
    });
  }

  /// Replaces the worker's values with the outer parameters.
  void adopt() {
    launch("copy", 8, [&](const Kernels& k, Queue q, std::size_t i) {
      k.copy(q, outer_[i], parameters_[i]->value);
    });
  }

  const std::vector<Parameter*>& parameters() const { return parameters_; }

 private:
  /// Runs `work` for each parameter. The clock charges `bytes` per element.
  template <class Work>
  void launch(const char* name, double bytes, const Work& work) {
    const Cost cost{.bytes = bytes * elements_};
    device_.compute.range(Span{.name = name, .category = Category::optimizer}, [&] {
      device_.compute.launch(Span{.name = name}, cost, [&](const Kernels& k, Queue q) {
        for (std::size_t i = 0; i < parameters_.size(); ++i) work(k, q, i);
      });
    });
  }

  Device device_;
  std::vector<Parameter*> parameters_;
  OuterOptions options_;
  std::vector<Tensor> outer_, momentum_;
  double elements_ = 0;
};

}  // namespace lockstep
