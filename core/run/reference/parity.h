#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/model/data.h"
#include "core/plan/sum_order.h"
#include "core/run/options/lesson_info.h"
#include "core/run/options/options.h"
#include "core/run/results/deviation.h"
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

/// Throws RunError if tensors are missing or differ in size.
Parity compare(const std::vector<double>& losses, const std::vector<NamedValues>& parameters,
               const Reference& reference);

}  // namespace lockstep
