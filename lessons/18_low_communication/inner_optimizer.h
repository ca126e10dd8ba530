#pragma once

#include "core/model/adamw.h"
#include "core/model/gpt.h"

namespace lockstep {

/// A worker's own optimizer: AdamW, or plain SGD, which has neither momentum nor weight decay.
class InnerOptimizer {
 public:
  /// With `sgd`, only the learning rate of `options` has an effect. The model must outlive the
  /// optimizer.
  InnerOptimizer(Gpt& model, const AdamWOptions& options, bool sgd)
      : sgd_(sgd),
        parameters_(model.parameters()),
        adamw_(sgd ? std::vector<Parameter*>{} : parameters_, model.device(), options) {}

  /// Updates the model, with all gradients multiplied by `gradient_scale`. SGD leaves other values
  /// in the gradients.
  void step(float gradient_scale) {
    if (!sgd_) return adamw_.step(gradient_scale);
    const float factor = -adamw_.options().learning_rate * gradient_scale;
    Cost cost;
    for (const Parameter* parameter : parameters_)
      cost.bytes += 3 * static_cast<double>(parameter->value.bytes());  // two reads and a write
    Stream& compute = adamw_.device().compute;
    compute.range(Span{.name = "optimizer", .category = Category::optimizer}, [&] {
      compute.launch(Span{.name = "sgd"}, cost, [&](const Kernels& k, Queue q) {
        for (const Parameter* parameter : parameters_) {
          k.scale(q, parameter->gradient, factor);
          k.add(q, parameter->value, parameter->gradient, parameter->value);
        }
      });
    });
  }

  /// AdamW's state; it has no parameters if the optimizer is SGD.
  AdamW& adamw() { return adamw_; }

 private:
  bool sgd_;
  std::vector<Parameter*> parameters_;
  AdamW adamw_;
};

}  // namespace lockstep
