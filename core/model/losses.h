#pragma once

#include <vector>

#include "core/device/numbers.h"
#include "core/model/gpt.h"

namespace lockstep {

/// The losses of a step's microbatches. The device adds them up between the passes, and the host
/// reads all of them at once when it has launched the whole step: waiting for a loss between a
/// forward and a backward pass would leave a GPU without work until the host launches more.
class Losses {
 public:
  Losses(Device device, std::size_t microbatches)
      : sums_(device, microbatches), factors_(microbatches, 0.0) {}

  /// Launches the sum of a microbatch's losses. Call it between the microbatch's forward and
  /// backward passes, on the stage that has the head.
  void take(std::size_t microbatch, Gpt& model, const Stash& stash) {
    factors_[microbatch] = model.launch_loss(stash, sums_.at(microbatch));
  }
  /// Returns the sum of all microbatches' losses, the batch's mean loss (or this replica's share of
  /// it), added in the order of the microbatches. Waits for the device.
  double total() const {
    const std::vector<double> sums = sums_.read();
    double total = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) total += sums[i] * factors_[i];
    return total;
  }

 private:
  DeviceNumbers sums_;
  std::vector<double> factors_;
};

}  // namespace lockstep
