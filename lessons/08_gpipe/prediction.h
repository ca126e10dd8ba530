#pragma once

#include "core/pipeline/pipeline_prediction.h"
#include "core/pipeline/update.h"
#include "lessons/08_gpipe/gpipe.h"

namespace lockstep {

/// Sets the bubble, which GPipe and 1F1B share.
inline void set_gpipe_bubble(Predicted& predicted, const Schedule& schedule) {
  predicted.bubble = gpipe_bubble(schedule.stages, schedule.microbatches);
  predicted.formula = "(p-1)/(m+p-1)";
}

/// Predicts one step of one rank for GPipe or 1F1B.
inline Predicted predict_gpipe(const Plan& plan, const Place& place, const Schedule& schedule) {
  Predicted predicted = predict_pipeline(plan, place, schedule);
  set_gpipe_bubble(predicted, schedule);
  return predicted;
}

/// Makes the same prediction for NaivePipeline, which has no buffers in flight: only the update's
/// messages need buffers. There is no simulated bubble, because the simulator's sends do not block.
inline Predicted predict_naive(const Plan& plan, const Place& place, const Schedule& schedule) {
  Predicted predicted = predict_gpipe(plan, place, schedule);
  predicted.bubble_simulated.reset();
  predicted.propose_split = {};
  predicted.peak_bytes[MemoryCategory::communication] = update_messages(plan, place).peak_bytes;
  return predicted;
}

}  // namespace lockstep
