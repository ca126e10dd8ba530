#pragma once

#include "core/dry_run/dry_run.h"
#include "core/model/adamw.h"
#include "core/model/gpt.h"
#include "lessons/02_data_parallel/data_parallel.h"

namespace lockstep {

/// Predicts one step of one rank by running main.cpp's step as this rank alone: keys and values in
/// flight, the gradients' sums and the blocks' activations overlap in ways that have no formula.
/// (Bytes and messages of the three methods, worked by hand: tests/dry_run.)
inline Predicted predict_context_parallel(const Plan& plan, const Place& place) {
  const DryFigures figures = dry_run(plan, place, [&](DryRank& rank) {
    Gpt model{plan, place, rank.device(), Storage::own, &rank.groups};
    AdamW optimizer{model.parameters(), rank.device(), plan.optimizer};
    DataParallel replicas{model, rank.group(Axis::cp), one_bucket};
    replicas.set(GradientSync::bucket);
    rank.run(plan.batch.microbatches, [&](const Batch& mine) {
      model.zero_gradients();
      accumulate_gradients(model, mine);
      replicas.sum_gradients();
      optimizer.step();
    });
  });
  Predicted predicted;
  figures.fill(predicted);
  return predicted;
}

}  // namespace lockstep
