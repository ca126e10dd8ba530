#pragma once

#include "core/model/data.h"
#include "core/plan/prediction.h"
#include "core/run/rank/rank.h"

namespace lockstep {

struct ActiveRun;

/// The steps of a phase, as a range of batches. Each iteration begins a step, and the end of the
/// loop closes the phase. The loop's body may move a batch away, to keep it beyond its step. An
/// interruption ends the range early, on all ranks after the same step
/// (see Stop).
class Batches {
 public:
  class Iterator {
   public:
    Iterator(Batches* batches, int step) : batches_(batches), step_(step) {}
    Batch& operator*() const { return batches_->batch_; }
    Iterator& operator++();
    bool operator==(const Iterator& other) const { return step_ == other.step_; }

   private:
    Batches* batches_;
    int step_;
  };

  Batches(ActiveRun& run, Rank& rank, Phase phase)
      : run_(run), rank_(rank), phase_(std::move(phase)) {}
  Iterator begin();
  Iterator end() { return {this, phase_.first_step + phase_.steps}; }

 private:
  /// Begins a step. Returns it, or the phase's end if there is no further step.
  int begin_step(int step);

  ActiveRun& run_;
  Rank& rank_;
  Phase phase_;
  Batch batch_;
};

}  // namespace lockstep
