#pragma once

#include <utility>
#include <vector>

#include "core/device/stream.h"

namespace lockstep {

/// The mean loss of a batch, or a replica's share of it, which the device may still be computing.
/// Converting it to a number waits for the device, unless the host has waited since the passes were
/// launched, for example for the gradients' norm. Convert it after the optimizer's step: a wait
/// before it would leave a GPU without work until the host launches more. The model's device must
/// still exist.
class BatchLoss {
 public:
  /// `sums` are doubles, one for each microbatch; `factors` multiply them.
  BatchLoss(LaterRead sums, std::vector<double> factors)
      : sums_(std::move(sums)), factors_(std::move(factors)) {}

  /// Adds the microbatches' losses, in their order.
  operator double() const {
    const std::vector<double> sums = sums_.get<double>();
    double total = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) total += sums[i] * factors_[i];
    return total;
  }

 private:
  LaterRead sums_;
  std::vector<double> factors_;
};

}  // namespace lockstep
