#include "core/pipeline/pipeline_prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <vector>

#include "core/model/gpt.h"
#include "core/pipeline/balance.h"
#include "core/pipeline/message_plan.h"
#include "core/pipeline/update.h"
#include "core/pipeline/validate.h"
#include "core/plan/footprint.h"
#include "core/plan/ranks_of_model.h"

namespace lockstep {

StageTimes stage_times(const Plan& plan, int stage, int microbatches) {
  if (!plan.modelled) return {};
  const Clock clock = plan.clock(plan.rank_holding(stage));
  Recorder silent{false};
  Memory memory{DeviceKind::meta};
  Stream compute{clock, silent, 0, DeviceKind::meta};
  Gpt model{plan, plan.place(plan.rank_holding(stage)), stage, {memory, compute}};
  const Boundary between = plan.boundary(microbatches);
  const Shape tokens{between.shape[0], between.shape[1]};
  const View shape{nullptr, tokens, DType::i32};
  const Microbatch microbatch{.tokens = shape, .targets = shape, .positions = shape};
  const auto boundary = [&](bool there) {
    return there ? Tensor{memory, between.shape, MemoryCategory::activations, between.dtype}
                 : Tensor{};
  };
  const auto cost = [&](Op op, const auto& work) {
    const Picoseconds before = compute.now();
    compute.range({.category = category(op), .stage = stage, .microbatch = 0}, work);
    return compute.now() - before;
  };
  const bool first = stage == 0;
  const bool last = stage == plan.stages() - 1;
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

PipelineTimes pipeline_times(const Plan& plan, int microbatches) {
  // A stage's times depend on the parameters of each unit, on whether the unit is the first or last
  // of the model, and on how slow its rank is.
  using Parameters = std::vector<std::pair<std::int64_t, bool>>;  // elements, frozen
  std::map<std::pair<double, std::vector<std::pair<bool, Parameters>>>, StageTimes> known;
  PipelineTimes times;
  for (int stage = 0; stage < plan.stages(); ++stage) {
    std::pair<double, std::vector<std::pair<bool, Parameters>>> of_stage{1, {}};
    auto& [slowness, kind] = of_stage;
    if (plan.modelled) slowness = plan.modelled->slowness(plan.rank_holding(stage));
    for (const StoredUnit& unit : plan.units(plan.place(plan.rank_holding(stage)), stage)) {
      auto& [is_end, parameters] = kind.emplace_back();
      is_end = unit.index == 0 || unit.index > plan.model().layers;
      for (const StoredParameter& parameter : unit.parameters)
        parameters.emplace_back(parameter.slice.local().elements(), parameter.frozen);
    }
    auto found = known.find(of_stage);
    if (found == known.end())
      found = known.emplace(std::move(of_stage), stage_times(plan, stage, microbatches)).first;
    times.stages.push_back(found->second);
  }
  times.boundary_bytes = plan.boundary(microbatches).bytes();
  times.cluster = plan.clock().cluster();
  times.world_ranks = plan.mesh.group(0, Axis::pp);
  return times;
}

namespace {

/// Returns the times of the model's parts, from a pipeline with one block per stage. All blocks get
/// the time of the second one; the excess of the first and the last stage is the time of the
/// embedding and of the head.
PartTimes part_times(const Plan& plan, int microbatches) {
  const int layers = plan.model().layers;
  Plan single = plan;
  single.split.clear();
  single.rank_of_stage = loop_placement(plan.mesh.size(Axis::pp), layers);
  const std::vector<StageTimes> stages = pipeline_times(single, microbatches).stages;
  const auto excess = [&](const StageTimes& stage) {
    return StageTimes{stage.forward - stages[1].forward, stage.backward - stages[1].backward,
                      stage.backward_input - stages[1].backward_input,
                      stage.backward_weight - stages[1].backward_weight};
  };
  return {.embedding = excess(stages.front()),
          .blocks = std::vector(stages.size(), stages[1]),
          .head = excess(stages.back())};
}

}  // namespace

SplitProposal propose_split(const Plan& plan, const Schedule& schedule) {
  const int m = schedule.microbatches;
  const auto step_with = [&](const std::vector<int>& split) {
    Plan other = plan;
    other.split = split;
    return simulate(schedule, pipeline_times(other, m)).makespan;
  };
  SplitProposal proposal{.split = plan.blocks_of_stages()};
  proposal.step = step_with(proposal.split);
  proposal.better = proposal.split;
  proposal.better_step = proposal.step;
  // With as many stages as blocks, there is only one split. On slow ranks, the time of a block also
  // depends on its rank.
  if (plan.modelled->times.any() || !plan.modelled->slow.empty() ||
      plan.model().layers == plan.stages() || plan.stages() == 1)
    return proposal;
  const PartTimes parts = part_times(plan, m);
  const auto work = [](const StageTimes& times) { return times.forward + times.backward; };
  proposal.embedding = work(parts.embedding);
  proposal.block = work(parts.blocks.front());
  proposal.head = work(parts.head);
  const SimulatedSplit found =
      shortest_step(parts, schedule, pipeline_times(plan, m), proposal.split);
  if (const Picoseconds step = step_with(found.split); step < proposal.step) {
    proposal.better = found.split;
    proposal.better_step = step;
  }
  return proposal;
}

PipelinePrediction::PipelinePrediction(const Plan& plan, Schedule schedule)
    : plan_(plan), schedule_(std::move(schedule)) {
  if (schedule_.rank_of_stage != plan.rank_of_stage)
    throw std::invalid_argument(
        fmt::format("schedule {} places its stages on other ranks than the plan", schedule_.name));
  // Simulates rank 0's pipeline.
  const std::vector<int> pipeline = plan.mesh.group(0, Axis::pp);
  const auto in_pipeline = [&](const auto& slow) {
    return std::ranges::find(pipeline, slow.first) != pipeline.end();
  };
  if (plan.modelled && !plan.modelled->cluster.shared && !divides_layers(plan) &&
      plan.mesh.size(Axis::cp) == 1 && plan.batch.documents == 0 &&
      (plan.mesh.size(Axis::dp) == 1 || plan.modelled->slow.empty()) &&
      std::ranges::all_of(plan.modelled->slow, in_pipeline))
    bubble_simulated_ = simulate(schedule_, pipeline_times(plan, schedule_.microbatches)).bubble;
  else
    validate(schedule_);
}

Predicted PipelinePrediction::of_schedule(const Place& place) const {
  Predicted predicted;
  predicted.bubble_simulated = bubble_simulated_;
  if (bubble_simulated_ && place.rank == 0)
    predicted.propose_split = [plan = plan_, schedule = schedule_] {
      return lockstep::propose_split(plan, schedule);
    };
  predicted.schedule = schedule_.name;
  predicted.stages = schedule_.stages;
  predicted.in_flight = peak_live_microbatches(schedule_, place.coordinate(Axis::pp));
  return predicted;
}

Predicted PipelinePrediction::of(const Place& place) const {
  Predicted predicted = of_schedule(place);
  const int rank = place.coordinate(Axis::pp);
  const MessagePlan messages{schedule_, rank};
  const UpdateMessages update = update_messages(plan_, place);
  for (const Operation operation : all_operations)
    predicted.bytes_sent[operation] = update.bytes_sent[operation];

  const int stage = place.only_stage(), m = schedule_.microbatches;
  const Footprint footprint{plan_.model(), plan_.layers_of(stage), plan_.microbatch_size(m)};
  predicted.bytes_sent[Operation::send] = messages.messages_sent() * footprint.boundary;
  predicted.peak_bytes[MemoryCategory::parameters] = footprint.parameters;
  predicted.peak_bytes[MemoryCategory::gradients] = footprint.gradients;
  predicted.peak_bytes[MemoryCategory::optimizer] = footprint.optimizer;
  predicted.peak_bytes[MemoryCategory::activations] = footprint.peak(*predicted.in_flight);
  predicted.peak_bytes[MemoryCategory::communication] =
      std::max(messages.peak_buffers() * footprint.boundary, update.peak_bytes);
  return predicted;
}

Predicted predict_schedule_only(const Plan& plan, const Place& place, const Schedule& schedule) {
  return PipelinePrediction{plan, schedule}.of_schedule(place);
}

Predicted predict_pipeline(const Plan& plan, const Place& place, const Schedule& schedule) {
  return PipelinePrediction{plan, schedule}.of(place);
}

}  // namespace lockstep
