#pragma once

#include <optional>
#include <utility>

#include "core/pipeline/executor.h"
#include "core/pipeline/update.h"
#include "core/run/lesson.h"
#include "lessons/18_low_communication/diloco.h"
#include "lessons/18_low_communication/inner_optimizer.h"
#include "lessons/18_low_communication/method_flags.h"
#include "lessons/18_low_communication/pipedream.h"
#include "lessons/18_low_communication/streaming.h"
#include "lessons/18_low_communication/whole_run.h"

namespace lockstep {

/// Every rank is a worker with a copy of the model and its share of the batch. Data parallelism
/// sums the gradients in every step. DiLoCo takes H inner steps without any communication, and then
/// sums the workers' pseudo-gradients; streaming DiLoCo does so for one fragment at a time.
inline void train_workers(Lesson& lesson, Rank& rank, const LowCommunicationFlags& flags) {
  Group& workers = rank.group(Axis::dp);
  Gpt model{rank.plan, rank.place, rank.device};
  InnerOptimizer inner{model, lesson.optimizer(), flags.sgd()};
  lesson.load(rank, model.parameters(), inner.adamw());
  const int steps = lesson.options().run.steps;

  std::optional<DataParallel> replicas;
  std::optional<DiLoCo> diloco;
  std::optional<StreamingDiLoCo> streaming;
  if (flags.is("diloco"))
    diloco.emplace(model, workers, flags.outer(), one_bucket);
  else if (flags.is("streaming"))
    streaming.emplace(model, workers, flags.outer(), flags.streaming(), steps);
  else
    replicas.emplace(model, workers, one_bucket).set(GradientSync::bucket);

  WholeRun whole{rank};
  const Phase phase = lesson.phases().front();
  for (const Batch& mine : lesson.batches(rank, phase, flags.predict(rank, steps))) {
    model.zero_gradients();
    const BatchLoss loss = accumulate_gradients(model, mine);
    if (replicas) replicas->sum_gradients();
    // The loss is divided by the tokens of all workers. A worker's own step needs the mean over its
    // own tokens.
    inner.step(replicas ? 1 : static_cast<float>(workers.size()));
    if (diloco) diloco->after_step();
    if (streaming) streaming->after_step();
    lesson.record_loss(rank, loss);
  }
  whole.report(lesson, rank);
  lesson.finish(rank, model.parameters(), inner.adamw());
}

/// Every rank is a stage of one pipeline. 1F1B drains the pipeline after each batch, and then
/// updates the weights. PipeDream never drains it, and updates them after each microbatch.
inline void train_stages(Lesson& lesson, Rank& rank, const LowCommunicationFlags& flags) {
  Group& stages = rank.group(Axis::pp);
  Gpt stage{rank.plan, rank.place, rank.device};
  AdamW optimizer{stage.parameters(), rank.device, lesson.optimizer()};
  lesson.load(rank, stage.parameters(), optimizer);
  const int steps = lesson.options().run.steps, m = rank.plan.batch.microbatches;

  WholeRun whole{rank};
  std::optional<PipeDream> pipedream;
  if (flags.is("pipedream")) {
    pipedream.emplace(rank.endpoint, stages, stage, optimizer, rank.plan.boundary(m), m, steps);
    for (const Phase& phase : pipedream_phases(stages.size(), m, steps))
      for (Batch& batch :
           lesson.batches(rank, phase, predict_pipedream(rank.plan, rank.place, phase, steps)))
        lesson.record_loss(rank, pipedream->step(std::move(batch)));
  } else {
    const Schedule schedule = one_f_one_b(stages.size(), m);
    const Predicted predicted = predict_gpipe(rank.plan, rank.place, schedule);
    PipelineExecutor pipeline{rank.endpoint, stages, schedule, {&stage}, rank.plan.boundary(m)};
    PipelineUpdate update{rank.endpoint, stages, rank.plan, {&stage}, optimizer};
    for (const Batch& batch : lesson.batches(rank, lesson.phases().front(), predicted)) {
      stage.zero_gradients();
      const std::optional<BatchLoss> loss = pipeline.step(batch);
      update.step();
      lesson.record_loss(rank, loss);
    }
  }
  whole.report(lesson, rank);
  lesson.finish(rank, stage.parameters(), optimizer);
}

}  // namespace lockstep
