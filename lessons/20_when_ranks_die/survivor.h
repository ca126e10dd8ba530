#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/model/adamw.h"
#include "core/model/data.h"
#include "core/model/parameter.h"

namespace lockstep {

/// A rank of a training that goes on when other ranks die.
class Survivor {
 public:
  virtual ~Survivor() = default;
  /// Loads parameters and moments at the start of the run, or does nothing.
  using Load = std::function<void(const std::vector<Parameter*>&, AdamW&)>;
  /// Connects the ranks that start together.
  virtual void join(int step, const Load& load) = 0;
  /// Trains on one batch with the ranks that are there. Returns the loss, or this rank's share of
  /// it, on ranks that know it.
  virtual std::optional<double> step(int step, Batch& batch) = 0;
  /// Waits for what is still in flight after the last step.
  virtual void finish() {}
  virtual const std::vector<Parameter*>& parameters() const = 0;
  virtual const AdamW& optimizer() const = 0;
};

}  // namespace lockstep
