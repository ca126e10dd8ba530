#include "core/run/active/batches.h"

#include "core/run/active/active_run.h"

namespace lockstep {

Batches::Iterator Batches::begin() {
  return {this, begin_step(phase_.first_step)};
}

int Batches::begin_step(int step) {
  const int end = phase_.first_step + phase_.steps;
  if (step == end || !run_.stop.may_begin(rank_, step)) return end;
  run_.ranks.meter(rank_).begin_step(step);
  batch_ = run_.batch(rank_, step, phase_.microbatches);
  move_to(rank_.device, batch_);
  return step;
}

Batches::Iterator& Batches::Iterator::operator++() {
  RankMeter& meter = batches_->run_.ranks.meter(batches_->rank_);
  meter.end_step();
  step_ = batches_->begin_step(step_ + 1);
  if (*this == batches_->end()) meter.end_phase();
  return *this;
}

}  // namespace lockstep
