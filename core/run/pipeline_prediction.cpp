#include "core/run/pipeline_prediction.h"

#include <algorithm>
#include <set>

#include "core/plan/footprint.h"
#include "core/pipeline/executor.h"
#include "core/pipeline/update.h"

namespace lockstep {

StageTimes stage_times(const GptConfig& config, int stage, int stages, int batch,
                       const Clock& clock) {
  if (!clock.is_modelled()) return {};
  const Clock unpaced = Clock::modelled(clock.cluster(), clock.times());
  Recorder silent{false};
  Memory memory{DeviceKind::meta};
  Stream compute{unpaced, silent, 0, DeviceKind::meta};
  Gpt model{config, {memory, compute}, StageLayers::of(config, stage, stages), 0};
  const Microbatch microbatch{View{nullptr, {batch, config.sequence}, DType::i32},
                              View{nullptr, {batch, config.sequence}, DType::i32}};
  const auto boundary = [&](bool there) {
    return there ? Tensor{memory,
                          {batch, config.sequence, config.hidden},
                          MemoryCategory::activations,
                          config.dtype}
                 : Tensor{};
  };
  const auto cost = [&](Op op, const auto& work) {
    const Picoseconds before = compute.now();
    compute.range({.category = category(op), .stage = stage, .microbatch = 0}, work);
    return compute.now() - before;
  };
  const bool first = stage == 0;
  const bool last = stage == stages - 1;
  StageTimes times;
  Stash whole, halves;
  times.forward = cost(Op::forward, [&] { model.forward(microbatch, boundary(!first), whole); });
  times.backward = cost(Op::backward, [&] { model.backward(boundary(!last), whole); });
  model.forward(microbatch, boundary(!first), halves);
  times.backward_input =
      cost(Op::backward_input, [&] { model.backward_input(boundary(!last), halves); });
  times.backward_weight = cost(Op::backward_weight, [&] { model.backward_weight(halves); });
  return times;
}

PipelineTimes pipeline_times(const GptConfig& config, int stages, int batch, const Clock& clock) {
  PipelineTimes times;
  for (int stage = 0; stage < stages; ++stage)
    times.stages.push_back(stage_times(config, stage, stages, batch, clock));
  times.boundary_bytes =
      static_cast<std::int64_t>(size_of(config.dtype)) * batch * config.sequence * config.hidden;
  times.cluster = clock.cluster();
  return times;
}

// Follows PipelineExecutor: a receive per lane is asked for at the start, and the next as soon as
// one has been used; what was sent is held until the plan says that it has been received.
std::int64_t peak_in_flight(const Schedule& schedule, int rank, std::int64_t boundary_bytes) {
  const MessagePlan plan{schedule, rank};
  std::map<std::pair<int, bool>, std::size_t> unused;  // receives of a lane that are left
  for (int peer = 0; peer < schedule.ranks; ++peer)
    for (const bool forward : {true, false})
      if (const auto count = plan.incoming(peer, forward).size(); peer != rank && count > 0)
        unused[{peer, forward}] = count;
  std::int64_t buffers = static_cast<std::int64_t>(unused.size());
  std::int64_t peak = buffers;
  for (std::size_t i = 0; i < schedule.actions[static_cast<std::size_t>(rank)].size(); ++i) {
    if (const auto& in = plan.input(i); in && in->from_rank != rank) {
      --buffers;
      buffers -= static_cast<std::int64_t>(plan.received_by(i).size());
      if (--unused.at({in->from_rank, in->forward}) > 0) ++buffers;
    }
    if (const auto& out = plan.output(i); out && out->to_rank != rank) ++buffers;
    peak = std::max(peak, buffers);
  }
  return peak * boundary_bytes;
}

Predicted predict_pipeline(const Rank& rank, const Options& options, const Schedule& schedule) {
  const GptConfig& config = options.model;
  const int batch = options.batch / options.dp / schedule.microbatches;
  Predicted prediction;
  prediction.schedule = schedule.name;
  prediction.stages = schedule.stages;
  const PipelineTimes times = pipeline_times(config, schedule.stages, batch, rank.clock);
  if (rank.clock.is_modelled()) {
    prediction.bubble_simulated = simulate(schedule, times).bubble;
  }

  const int here = rank.place.coordinate(Axis::pp);
  const bool first = here == 0;
  const bool last = here == schedule.ranks - 1;
  prediction.bytes_sent[Operation::send] =
      ((first ? 0 : 1) + (last ? 0 : 1)) * times.boundary_bytes * schedule.microbatches;
  prediction.bytes_sent[Operation::all_reduce] =
      PipelineUpdate::tied_bytes(config, here, schedule.ranks);
  if (options.optimizer.clip > 0 && schedule.ranks > 1)
    prediction.bytes_sent[Operation::all_gather] =
        PipelineUpdate::norm_bytes(config, schedule.ranks);
  const Footprint footprint{config, StageLayers::of(config, here, schedule.stages), batch};
  prediction.peak_bytes[MemoryCategory::parameters] = footprint.parameters;
  prediction.peak_bytes[MemoryCategory::gradients] = footprint.gradients;
  prediction.peak_bytes[MemoryCategory::optimizer] = footprint.optimizer;
  prediction.peak_bytes[MemoryCategory::activations] =
      footprint.peak(peak_live_microbatches(schedule, here));
  prediction.peak_bytes[MemoryCategory::communication] =
      peak_in_flight(schedule, here, times.boundary_bytes);
  return prediction;
}

}  // namespace lockstep
