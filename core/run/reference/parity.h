#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "core/model/data.h"
#include "core/plan/sum_order.h"
#include "core/run/options/lesson_info.h"
#include "core/run/options/options.h"
#include "core/run/results/rank_results.h"

namespace lockstep {

/// The result of a run on one device, with which a run on several ranks is compared.
struct Reference {
  std::vector<double> losses;           ///< by step
  std::vector<NamedValues> parameters;  ///< in the model's order
};

/// The run that a reference repeats on one device.
struct ReferenceRun {
  const Options& options;
  const Corpus& corpus;
  const std::vector<Phase>& phases;
  const std::function<void(int)>& progress;  ///< to be called with the number of steps done
  /// If not empty: for each phase, the order in which the replicas' values are added.
  const std::vector<SumOrder>& orders;
};

/// Trains the whole model on this thread, with `options`' model, data, optimizer and phases. Every
/// microbatch of every replica becomes a microbatch here, in order of the replicas, so that matrix
/// products have the same shapes and only the order in which replicas' gradients are added differs.
/// `progress` is called after each step with the number of steps done. If `orders` is not empty, it
/// holds, for each phase, the order in which the replicas' gradients are added.
Reference train_on_one_device(const Options& options, const Corpus& corpus,
                              const std::vector<Phase>& phases,
                              const std::function<void(int)>& progress = {},
                              const std::vector<SumOrder>& orders = {});

/// How far a run deviates from a single-device run (core/README.md, "Parity").
struct Parity {
  double max_relative_loss = 0;
  /// The largest ‖a - b‖₂ / max(‖b‖₂, √n · 0.02) over all tensors.
  double max_relative_parameter = 0;
  std::string worst_parameter;
  double final_loss = 0;      ///< the mean over the last tenth of the steps (rounded up)
  double reference_loss = 0;  ///< the same for the single-device run
  bool bitwise = false;       ///< all losses (all finite) and all parameters are bitwise identical

  bool within(const Tolerance& tolerance) const {
    if (tolerance.final_loss > 0)  // false for NaN
      return std::abs(final_loss / reference_loss - 1) <= tolerance.final_loss;
    return bitwise || (!tolerance.bitwise() && max_relative_loss <= tolerance.loss &&
                       max_relative_parameter <= tolerance.parameter);
  }
};

/// Throws RunError if tensors are missing or differ in size.
Parity compare(const std::vector<double>& losses, const std::vector<NamedValues>& parameters,
               const Reference& reference);

}  // namespace lockstep
