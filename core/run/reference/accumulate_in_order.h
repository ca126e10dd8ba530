#pragma once

#include <vector>

#include "core/model/data.h"
#include "core/model/gpt.h"
#include "core/plan/sum_order.h"

namespace lockstep {

/// Computes the gradients of a whole batch on one device, which takes the role of each replica in
/// turn, and adds the replicas' gradients in `order`. `batches` holds one share per replica.
/// Returns the loss. Throws std::invalid_argument if the order does not cover every trained
/// element.
double accumulate_in_order(Gpt& model, const std::vector<Batch>& batches, const SumOrder& order);

}  // namespace lockstep
