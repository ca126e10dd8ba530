#pragma once

#include <vector>

#include "core/run/reference/parity.h"

namespace lockstep {

/// Trains on one device that takes each batch in one microbatch, whatever the ranks do.
inline Reference train_in_one_microbatch(const ReferenceRun& run) {
  Options options = run.options;
  options.plan = options.plan.on_one_device();
  std::vector<Phase> phases = run.phases;
  for (Phase& phase : phases) phase.microbatches = 1;
  return train_on_one_device(options, run.corpus, phases, run.progress);
}

}  // namespace lockstep
