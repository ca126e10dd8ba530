#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/device/device.h"
#include "core/model/parameter.h"
#include "core/plan/adamw_options.h"

namespace lockstep {

/// The sum of squares of one parameter's gradient, with the parameter's order in the whole model.
using OrderedSquare = std::pair<int, double>;

/// √ of the sum over all parameters, added in ascending order, so that it has the same bits however
/// the parameters are spread over ranks. Each parameter must be there once.
double gradient_norm(std::vector<OrderedSquare> squares);

/// AdamW (Loshchilov & Hutter 2019) as PyTorch computes it. Reads the parameters through their
/// Views at every step; they must outlive the optimizer. Momentum and variance (4 + 4 bytes an
/// element) are charged to MemoryCategory::optimizer. What is frozen is left as it is.
///
/// Where a parameter's value is narrow, the optimizer keeps an f32 master of it (4 bytes more),
/// updates that, and rounds it into the value: a step that is less than half the distance between
/// two narrow numbers is not lost, but adds up (Micikevicius 2018, section 3.1). The master begins
/// as the value that is there when the optimizer is made, widened: a shard, a stage and a loaded
/// model all begin alike, and the initial numbers are off by one rounding from those of an f32 run.
class AdamW {
 public:
  AdamW(std::vector<Parameter*> parameters, Device device, AdamWOptions options = {});
  ~AdamW();
  AdamW(AdamW&&) = default;
  AdamW& operator=(AdamW&&) = delete;

  Device device() const { return device_; }

  /// Of this rank's parameters; to be gathered from all ranks where there are several. Waits for
  /// the device. Zeros on the meta device.
  std::vector<OrderedSquare> squares();
  /// Whether all of this rank's gradients are numbers: none infinite, none NaN. One pass over them;
  /// waits for the device. True on the meta device.
  bool finite();
  /// What to multiply gradients by so that their norm is at most options.clip: 1, or
  /// clip / (norm + 1e-6), as PyTorch's clip_grad_norm_.
  float clip_scale(double norm) const;
  /// One update with all gradients multiplied by `gradient_scale`.
  void step(float gradient_scale);
  /// One update of a model that is all here: norm, clipping, update.
  void step();

  /// What it knows of one parameter, or part of one.
  struct Moments {
    const Parameter* parameter;
    View momentum, variance;
  };
  std::vector<Moments> moments() const;
  /// What it updates: all that were given and are not frozen.
  const std::vector<Parameter*>& parameters() const { return parameters_; }
  /// Goes on as after `steps` steps; the moments are for the caller to fill.
  void resume(std::int64_t steps) { steps_ = steps; }

  const AdamWOptions& options() const { return options_; }
  void set_learning_rate(float rate) { options_.learning_rate = rate; }
  std::int64_t steps() const { return steps_; }

 private:
  struct State {
    Tensor momentum;
    Tensor variance;
    Tensor master;  ///< empty where the value is f32
  };

  void update(float gradient_scale);

  std::vector<Parameter*> parameters_;
  Device device_;
  AdamWOptions options_;
  std::vector<State> states_;
  std::int64_t steps_ = 0;
};

}  // namespace lockstep
