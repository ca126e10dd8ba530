#include "core/run/batches.h"

#include "core/run/active_run.h"

namespace lockstep {

Batches::Iterator Batches::begin() {
  begin_step(phase_.first_step);
  return {this, phase_.first_step};
}

void Batches::begin_step(int step) {
  run_.meter(rank_).begin_step(step);
  batch_ = run_.batch(rank_, step, phase_.microbatches);
  move_to(rank_.device, batch_);
}

Batches::Iterator& Batches::Iterator::operator++() {
  RankMeter& meter = batches_->run_.meter(batches_->rank_);
  meter.end_step();
  ++step_;
  if (step_ < batches_->phase_.first_step + batches_->phase_.steps)
    batches_->begin_step(step_);
  else
    meter.end_phase();
  return *this;
}

}  // namespace lockstep
