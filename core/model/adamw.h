#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/device/numbers.h"
#include "core/model/parameter.h"
#include "core/plan/adamw_options.h"

namespace lockstep {

/// A parameter's ParameterSpec::order, and the sum of the squares of its gradient's
/// elements.
using OrderedSquare = std::pair<int, double>;

/// Returns the gradient norm: the square root of the sum of `squares`, added in ascending parameter
/// order, so that the result is bitwise identical however the parameters are spread over ranks.
/// Each parameter must appear exactly once.
double gradient_norm(std::vector<OrderedSquare> squares);

/// AdamW (Loshchilov & Hutter 2019) as PyTorch computes it. Reads the parameters through their
/// Views at every step, so they must outlive the optimizer. Momentum and variance (4 + 4 bytes per
/// element) are charged to MemoryCategory::optimizer. Does not update frozen parameters.
///
/// If a parameter is stored in 16 bits, the optimizer keeps an f32 master copy of it (4 more bytes
/// per element), updates the master, and rounds it into the parameter. Updates smaller than half
/// the gap between adjacent 16-bit numbers therefore accumulate instead of being lost (Micikevicius
/// 2018, section 3.1). The constructor initialises the master by widening the parameter's value, so
/// shards and pipeline stages start from the same masters as the whole model. Each master differs
/// from the initial weight of an f32 run by one rounding.
class AdamW {
 public:
  AdamW(std::vector<Parameter*> parameters, Device device, AdamWOptions options = {});
  ~AdamW();
  AdamW(AdamW&&) = default;
  AdamW& operator=(AdamW&&) = delete;

  Device device() const { return device_; }

  /// Returns, for each parameter on this rank, the sum of the squares of its gradient's elements.
  /// With several ranks, gather all ranks' sums before calling gradient_norm(). Waits for the
  /// device. On the meta device, the sums are 0.
  std::vector<OrderedSquare> squares();
  /// Returns whether all of this rank's gradients are finite (no infinity, no NaN). Reads all
  /// gradients once and waits for the device. Returns true on the meta device.
  bool finite();
  /// Returns the factor that limits the gradient norm to options.clip: the smaller of 1 and clip /
  /// (norm + 1e-6), as in PyTorch's clip_grad_norm_.
  float clip_scale(double norm) const;
  /// Performs one update with all gradients multiplied by `gradient_scale`.
  void step(float gradient_scale);
  /// Computes the norm, clips the gradients and performs one update. Only for a rank that holds the
  /// whole model.
  void step();

  /// The moments of one parameter, or of one part of a parameter.
  struct Moments {
    const Parameter* parameter;
    View momentum, variance;
  };
  std::vector<Moments> moments() const;
  /// Returns the parameters that the optimizer updates: all that were passed to the constructor,
  /// except frozen ones.
  const std::vector<Parameter*>& parameters() const { return parameters_; }
  /// Sets the step count to `steps` to resume training; the caller fills in the moments.
  void resume(std::int64_t steps) { steps_ = steps; }

  const AdamWOptions& options() const { return options_; }
  std::int64_t steps() const { return steps_; }

 private:
  struct State {
    Tensor momentum;
    Tensor variance;
    Tensor master;  ///< empty if the value is f32
  };

  void update(float gradient_scale);
  std::vector<double> reduce(const char* name, Kernel<void(Queue, Ins, Out32)> Kernels::*kernel);

  std::vector<Parameter*> parameters_;
  Device device_;
  AdamWOptions options_;
  std::vector<State> states_;
  DeviceNumbers sums_;  ///< one for each gradient
  std::int64_t steps_ = 0;
};

}  // namespace lockstep
