#pragma once

#include <vector>

#include "core/device/numbers.h"
#include "core/model/batch_loss.h"
#include "core/model/gpt.h"

namespace lockstep {

/// The losses of a step's microbatches. The device adds them up between the passes, and the host
/// reads all of them at once, as a BatchLoss.
class Losses {
 public:
  Losses(Device device, std::size_t microbatches)
      : sums_(device, microbatches), factors_(microbatches, 0.0) {}

  /// Launches the sum of a microbatch's losses. Call it between the microbatch's forward and
  /// backward passes, on the stage that has the head.
  void take(std::size_t microbatch, Gpt& model, const Stash& stash) {
    factors_[microbatch] = model.launch_loss(stash, sums_.at(microbatch));
  }
  /// Returns the sum of all microbatches' losses. Call it once all of them have been taken.
  BatchLoss total() const { return {sums_.read_later(), factors_}; }

 private:
  DeviceNumbers sums_;
  std::vector<double> factors_;
};

}  // namespace lockstep
