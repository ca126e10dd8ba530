#include "core/run/pipeline_prediction.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/pipeline/message_plan.h"
#include "core/pipeline/update.h"

namespace lockstep {

Boundary stage_boundary(const GptConfig& config, int batch) {
  return {{batch, config.sequence, config.hidden}, config.dtype};
}

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
    const auto [shape, dtype] = stage_boundary(config, batch);
    return there ? Tensor{memory, shape, MemoryCategory::activations, dtype} : Tensor{};
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
  // What a stage's times depend on: its ends, and which of its units are frozen.
  using Kind = std::tuple<bool, bool, std::vector<bool>>;
  std::map<Kind, StageTimes> known;
  PipelineTimes times;
  for (int stage = 0; stage < stages; ++stage) {
    const StageLayers layers = StageLayers::of(config, stage, stages);
    std::vector<bool> frozen{config.is_frozen(0), config.is_frozen(config.layers + 1)};
    for (int block = layers.first; block < layers.last; ++block)
      frozen.push_back(config.is_frozen(block + 1));
    const Kind kind{layers.embedding, layers.head, std::move(frozen)};
    auto found = known.find(kind);
    if (found == known.end())
      found = known.emplace(kind, stage_times(config, stage, stages, batch, clock)).first;
    times.stages.push_back(found->second);
  }
  times.boundary_bytes = stage_boundary(config, batch).bytes();
  times.cluster = clock.cluster();
  return times;
}

std::int64_t peak_activations(const Schedule& schedule, int rank,
                              const std::vector<Footprint>& footprints) {
  const auto is_here = [&](int stage) {
    return stage >= 0 && stage < schedule.stages &&
           schedule.rank_of_stage[static_cast<std::size_t>(stage)] == rank;
  };
  std::int64_t held = 0;
  std::int64_t peak = 0;
  for (const Action& action : schedule.actions[static_cast<std::size_t>(rank)]) {
    const Footprint& stage = footprints[static_cast<std::size_t>(action.stage)];
    const bool forward = action.op == Op::forward;
    const bool crosses = action.op != Op::backward_weight;
    // A footprint counts the action's input: as part of the stash, or of the working set.
    if (crosses && is_here(action.stage + (forward ? -1 : 1))) held -= stage.boundary;
    switch (action.op) {
      case Op::forward:
        held += stage.stash;
        peak = std::max(peak, held + stage.forward_working);
        break;
      case Op::backward:
        peak = std::max(peak, held + stage.backward_working);
        held -= stage.stash;
        break;
      case Op::backward_input:
        peak = std::max(peak, held + stage.backward_input_working);
        held += stage.pending - stage.stash;
        break;
      case Op::backward_weight:
        held -= stage.pending;
        break;
    }
    if (crosses && is_here(action.stage + (forward ? 1 : -1))) held += stage.boundary;
  }
  return peak;
}

PipelinePrediction::PipelinePrediction(const GptConfig& config, Schedule schedule, int batch,
                                       const Clock& clock, const AdamWOptions& optimizer,
                                       Collectives collectives, bool combines)
    : config_(config),
      schedule_(std::move(schedule)),
      boundary_bytes_(stage_boundary(config, batch).bytes()),
      clips_(optimizer.clip > 0),
      collectives_(collectives),
      combines_(combines) {
  if (clock.is_modelled())
    bubble_simulated_ =
        simulate(schedule_, pipeline_times(config, schedule_.stages, batch, clock)).bubble;
  else
    validate(schedule_);
  for (int stage = 0; stage < schedule_.stages; ++stage)
    footprints_.emplace_back(config, StageLayers::of(config, stage, schedule_.stages), batch);
}

Predicted PipelinePrediction::of(int rank) const {
  Predicted predicted{.bubble_simulated = bubble_simulated_,
                      .schedule = schedule_.name,
                      .stages = schedule_.stages};
  const MessagePlan plan{schedule_, rank};
  const UpdateMessages update = update_messages(config_, schedule_.rank_of_stage, rank,
                                                schedule_.ranks, clips_, collectives_, combines_);
  predicted.bytes_sent = update.bytes_sent;
  predicted.bytes_sent["send"] = plan.messages_sent() * boundary_bytes_;

  std::int64_t parameters = 0, gradients = 0, states = 0;
  for (std::size_t stage = 0; stage < footprints_.size(); ++stage) {
    if (schedule_.rank_of_stage[stage] != rank) continue;
    parameters += footprints_[stage].parameters;
    gradients += footprints_[stage].gradients;
    states += footprints_[stage].optimizer;
  }
  predicted.peak_bytes = {
      {"parameters", parameters},
      {"gradients", gradients},
      {"optimizer", states},
      {"activations", peak_activations(schedule_, rank, footprints_)},
      {"communication", std::max(plan.peak_buffers() * boundary_bytes_, update.peak_bytes)}};
  return predicted;
}

Predicted predict_pipeline(const Rank& rank, const Options& options, const Schedule& schedule) {
  const PipelinePrediction prediction{options.model,
                                      schedule,
                                      options.batch / options.dp / schedule.microbatches,
                                      rank.clock,
                                      options.optimizer,
                                      rank.endpoint.collectives,
                                      rank.transport->combines()};
  return prediction.of(rank.mesh.coordinate(rank.id, Axis::pp));
}

}  // namespace lockstep
