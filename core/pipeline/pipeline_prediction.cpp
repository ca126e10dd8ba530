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

namespace {

/// What determines how fast a rank computes: its factor of --slow, and its group.
using Speed = std::pair<double, int>;

Speed speed_of(const Plan& plan, int rank) {
  if (!plan.modelled) return {1, -1};
  return {plan.modelled->slowness(rank), plan.modelled->cluster.group_of(rank)};
}

}  // namespace

std::string untimed_halves(const Plan& plan, const Schedule& schedule) {
  if (!plan.modelled) return {};
  const FixedTimes& times = plan.modelled->times;
  const auto whole = times.of(Category::backward);
  const bool splits = std::ranges::any_of(schedule.actions, [](const std::vector<Action>& row) {
    return std::ranges::any_of(row, [](const Action& each) {
      return each.op == Op::backward_input || each.op == Op::backward_weight;
    });
  });
  if (!splits || !whole || times.of(Category::backward_input)) return {};
  const double half = seconds(*whole) * 1e3 / 2;
  return fmt::format(
      "--time backward={0:g}ms: {1} splits backward passes, whose halves would take no time; add "
      "theirs, such as backward_input={2:g}ms,backward_weight={2:g}ms",
      2 * half, schedule.name, half);
}

PipelineTimes pipeline_times(const Plan& plan, int microbatches) {
  // A stage's times depend on the parameters of each unit, on whether the unit is the first or last
  // of the model, and on the speed of its rank.
  using Parameters = std::vector<std::pair<std::int64_t, bool>>;  // elements, frozen
  std::map<std::pair<Speed, std::vector<std::pair<bool, Parameters>>>, StageTimes> known;
  PipelineTimes times;
  for (int stage = 0; stage < plan.stages(); ++stage) {
    std::pair<Speed, std::vector<std::pair<bool, Parameters>>> of_stage{
        speed_of(plan, plan.rank_holding(stage)), {}};
    auto& kind = of_stage.second;
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

/// Returns the times of the model's parts on one rank, as if it held a pipeline of one block per
/// stage. All blocks get the time of the second one; the excess of the first and the last stage is
/// the time of the embedding and of the head.
PartTimes part_times_on(const Plan& plan, int microbatches, int rank) {
  const int layers = plan.model().layers;
  Plan single = plan;
  single.split.clear();
  single.set_mesh({});  // a rank that shares no layer
  single.rank_of_stage.assign(static_cast<std::size_t>(layers), 0);
  single.modelled->slow.clear();
  if (const double slowness = plan.modelled->slowness(rank); slowness != 1)
    single.modelled->slow = {{0, slowness}};
  single.modelled->cluster = plan.modelled->cluster.as_seen_by(rank);
  single.batch.sequences = plan.microbatch_size(microbatches) * microbatches;
  single.batch.shares.clear();
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

PartTimesByStage part_times(const Plan& plan, int microbatches, int rank) {
  std::map<Speed, PartTimes> known;
  PartTimesByStage parts;
  for (int stage = 0; stage < plan.stages(); ++stage) {
    const int holder = plan.rank_holding(stage, rank);
    const Speed speed = speed_of(plan, holder);
    auto found = known.find(speed);
    if (found == known.end())
      found = known.emplace(speed, part_times_on(plan, microbatches, holder)).first;
    parts.push_back(found->second);
  }
  return parts;
}

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
  // With as many stages as blocks, there is only one split.
  if (plan.modelled->times.any() || plan.model().layers == plan.stages() || plan.stages() == 1)
    return proposal;
  const PartTimesByStage parts = part_times(plan, m);
  // On unlike ranks, the parts have no times of their own.
  bool equal = true;
  for (int stage = 1; stage < plan.stages(); ++stage)
    equal =
        equal && speed_of(plan, plan.rank_holding(stage)) == speed_of(plan, plan.rank_holding(0));
  if (equal) {
    const auto work = [](const StageTimes& times) { return times.forward + times.backward; };
    proposal.embedding = work(parts.front().embedding);
    proposal.block = work(parts.front().blocks.front());
    proposal.head = work(parts.front().head);
  }
  const SimulatedSplit found =
      shortest_step(parts, schedule, pipeline_times(plan, m), proposal.split);
  if (const Picoseconds step = step_with(found.split); step < proposal.step) {
    proposal.better = found.split;
    proposal.better_step = step;
  }
  return proposal;
}

namespace {

bool ranks_differ(const ModelledTime& modelled) {
  return !modelled.slow.empty() || !modelled.cluster.groups.empty();
}

}  // namespace

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
      (plan.mesh.size(Axis::dp) == 1 || !ranks_differ(*plan.modelled)) &&
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
