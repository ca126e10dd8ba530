#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/comm/transport/control.h"
#include "core/model/adamw.h"
#include "core/model/builder.h"
#include "core/pipeline/executor.h"
#include "core/pipeline/pipeline_prediction.h"
#include "core/pipeline/update.h"
#include "core/plan/footprint.h"
#include "core/run/rank/rank.h"
#include "core/run/reference/parity.h"
#include "lessons/08_gpipe/gpipe.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "lessons/schedules/prediction.h"
#include "tests/support/bytes.h"
#include "tests/support/portion.h"
#include "viz/read/report/report.h"

/// Checks of a pipeline with real ranks that run under both threads and processes: each check is
/// called on every rank and returns the errors found there, or "".
namespace lockstep::testing {

/// A model that is small enough to train a few hundred times but still learns.
inline Options small_training(int ranks, int microbatches, bool tied = false, float clip = 0) {
  Options options;
  options.plan.set_mesh(Mesh::along(Axis::pp, ranks));
  set_model(
      options.plan,
      {.layers = 8, .hidden = 32, .heads = 2, .sequence = 16, .vocabulary = 256, .tied = tied});
  options.plan.batch.microbatches = microbatches;
  options.plan.batch.sequences = 2 * microbatches;
  options.run.steps = training_steps();
  options.plan.optimizer.learning_rate = 2e-3F;  // twice the lessons' default
  options.plan.optimizer.clip = clip;
  Cluster cluster;
  cluster.flops = 1e11;
  cluster.within = cluster.between = {1e-6, 1e9};
  options.plan.modelled = {cluster};
  return options;
}

/// Returns a model for a schedule: one layer per stage, and another for the first stage.
inline GptConfig tiny_model(const Schedule& schedule, bool tied) {
  return {.layers = schedule.stages + 1,
          .hidden = 16,
          .heads = 2,
          .sequence = 8,
          .vocabulary = 256,
          .tied = tied};
}

inline Corpus small_corpus(const GptConfig& config) {
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += fmt::format("stage {} sends microbatch {} to the next. ", i % 7, (i * i) % 11);
  return Corpus{text, config};
}

/// Returns a schedule for the given numbers of ranks and microbatches.
using Generator = std::function<Schedule(int, int)>;

/// Returns the rank's plan for this model and for the schedule's placement of stages.
inline Plan plan_for(const Rank& rank, const GptConfig& config, const Schedule& schedule,
                     int batch) {
  Plan plan = rank.plan;
  set_model(plan, config);
  plan.rank_of_stage = schedule.rank_of_stage;
  plan.batch = {.sequences = batch * schedule.microbatches, .microbatches = schedule.microbatches};
  return plan;
}

/// The models of the stages that a schedule places on this rank, in ascending order of stage.
struct StageModels {
  StageModels(Rank& rank, const GptConfig& config, const Schedule& schedule, std::uint64_t seed,
              const ModelBuilder& factory = {}) {
    for (int stage = 0; stage < schedule.stages; ++stage)
      if (schedule.rank_of_stage[static_cast<std::size_t>(stage)] == rank.id)
        models.push_back(std::make_unique<Gpt>(
            config, rank.device, StageLayers::of(config, stage, schedule.stages), seed, factory));
  }
  std::vector<Gpt*> pointers() const {
    std::vector<Gpt*> stages;
    for (const auto& model : models) stages.push_back(model.get());
    return stages;
  }
  std::vector<Parameter*> parameters() const {
    std::vector<Parameter*> all;
    for (const auto& model : models)
      all.insert(all.end(), model->parameters().begin(), model->parameters().end());
    return all;
  }
  void zero_gradients() {
    for (const auto& model : models) model->zero_gradients();
  }

  std::vector<std::unique_ptr<Gpt>> models;
};

/// Trains on the ranks of rank.world, and on rank 0 compares the results with those of one device.
/// The final loss must be below learned(left) times the initial loss.
inline std::string check_parity(Rank& rank, const Options& options, const Generator& generate,
                                const Reference& reference, const ModelBuilder& factory = {},
                                double left = 0.8) {
  const Corpus corpus = small_corpus(options.plan.model());
  const int m = options.plan.batch.microbatches;
  const Schedule schedule = generate(rank.count, m);
  StageModels stages{rank, options.plan.model(), schedule, options.plan.seed, factory};
  AdamW optimizer{stages.parameters(), rank.device, options.plan.optimizer};
  PipelineUpdate update{
      rank.endpoint, rank.world,
      plan_for(rank, options.plan.model(), schedule, options.plan.batch.sequences / m),
      stages.pointers(), optimizer};
  PipelineExecutor pipeline{rank.endpoint, rank.world, schedule, stages.pointers(),
                            stage_boundary(options.plan.model(), options.plan.batch.sequences / m)};
  RankResults record{.rank = rank.id};
  for (int step = 0; step < options.run.steps; ++step) {
    stages.zero_gradients();
    Batch batch = corpus.batch(options.plan.seed, step,
                               {.microbatches = m, .size = options.plan.batch.sequences / m});
    move_to(rank.device, batch);
    const auto loss = pipeline.step(batch);
    update.step();
    if (loss) record.losses.emplace_back(step, *loss);
  }
  for (const Parameter* parameter : stages.parameters())
    record.parameters.push_back(
        {parameter->name, parameter->order, parameter->f32_values(rank.device)});

  std::vector<RankResults> records;
  for (const std::string& bytes : gather_to_root(*rank.transport, record.to_bytes()))
    records.push_back(RankResults::from_bytes(bytes));
  if (rank.id != 0) return "";
  const auto losses = collect_losses(records, options.run.steps);
  const Parity parity = compare(losses, collect_parameters(records), reference);
  if (!parity.bitwise)
    return fmt::format("{}, p {} m {}: not the same bits: losses {:.1e}, parameters {:.1e} ({})",
                       schedule.name, rank.count, m, parity.max_relative_loss,
                       parity.max_relative_parameter, parity.worst_parameter);
  if (!(losses.back() < learned(left) * losses.front()))
    return fmt::format("{}, p {} m {}: the loss fell only from {} to {}", schedule.name, rank.count,
                       m, losses.front(), losses.back());
  return "";
}

/// Returns the spans with this name that this rank recorded, in order.
inline std::vector<TraceEvent> spans_named(const std::vector<TraceEvent>& events,
                                           const char* name) {
  std::vector<TraceEvent> found;
  for (const TraceEvent& event : events)
    if (event.kind == TraceEvent::Kind::span && std::string{event.span.name} == name &&
        event.span.category != Category::wait)
      found.push_back(event);
  return found;
}

/// Runs two steps of a schedule and compares every action, send and receive in the first step with
/// the simulator, to the picosecond. The second step must be the same as the first, only shifted in
/// time.
inline std::string check_timeline(Rank& rank, const GptConfig& config, const Schedule& schedule,
                                  int batch) {
  const PipelineTimes times =
      pipeline_times(plan_for(rank, config, schedule, batch), schedule.microbatches);
  const Simulation simulated = simulate(schedule, times, true);
  const Corpus corpus = small_corpus(config);
  StageModels stages{rank, config, schedule, 1};
  PipelineExecutor pipeline{rank.endpoint, rank.world, schedule, stages.pointers(),
                            stage_boundary(config, batch)};
  rank.trace.drain();
  Batch whole = corpus.batch(1, 0, {.microbatches = schedule.microbatches, .size = batch});
  move_to(rank.device, whole);
  pipeline.step(whole);
  const auto events = rank.trace.drain();

  const auto& actions = schedule.actions[static_cast<std::size_t>(rank.id)];
  const auto& timed = simulated.actions[static_cast<std::size_t>(rank.id)];
  const auto ran = spans_named(events, "action");
  const auto where = [&] { return fmt::format("{}, rank {}", schedule.name, rank.id); };
  if (ran.size() != actions.size())
    return fmt::format("{}: {} actions ran of {}", where(), ran.size(), actions.size());
  for (std::size_t i = 0; i < actions.size(); ++i)
    if (ran[i].start != timed[i].start || ran[i].end != timed[i].end ||
        ran[i].span.stage != actions[i].stage || ran[i].span.microbatch != actions[i].microbatch ||
        ran[i].span.category != category(actions[i].op))
      return fmt::format("{}: {} ran {}..{}, simulated {}..{}", where(), to_string(actions[i]),
                         ran[i].start, ran[i].end, timed[i].start, timed[i].end);

  // The start and end of each message that this rank sends or receives.
  struct Passage {
    Picoseconds start, end;
    bool operator==(const Passage&) const = default;
  };
  using Key = std::tuple<int, int, bool, int>;  // producing stage, microbatch, forward, peer
  std::map<Key, Passage> sends, receives, simulated_sends, simulated_receives;
  const auto lanes = rank.trace.lanes();
  const auto is_forward = [&](const TraceEvent& event) {
    return lanes[static_cast<std::size_t>(event.lane)].find("activations") != std::string::npos;
  };
  for (const TraceEvent& event : spans_named(events, "send"))
    sends[{event.span.stage, event.span.microbatch, is_forward(event), event.span.peer}] = {
        event.start, event.end};
  for (const TraceEvent& event : spans_named(events, "recv")) {
    const int made_by = event.span.stage + (is_forward(event) ? -1 : 1);
    receives[{made_by, event.span.microbatch, is_forward(event), event.span.peer}] = {event.start,
                                                                                      event.end};
  }
  for (const TimedMessage& message : simulated.messages) {
    const auto& [from, to, stage, microbatch, forward, start, sent, arrived] = message;
    if (from == rank.id) simulated_sends[{stage, microbatch, forward, to}] = {start, sent};
    if (to == rank.id)
      simulated_receives[{stage, microbatch, forward, from}] = {arrived - (sent - start), arrived};
  }
  if (sends != simulated_sends) return where() + ": sends lie elsewhere than simulated";
  if (receives != simulated_receives) return where() + ": receives lie elsewhere than simulated";
  return "";
}

/// Runs two steps with the optimizer and compares the peaks of all memory categories and the bytes
/// sent with a dry run, to the byte; if `live` is given (for one stage per rank), with the
/// formulas, whose peak of activations must be that of `live` microbatches.
inline std::string check_memory(Rank& rank, const Options& options, const Schedule& schedule,
                                std::optional<int> live = {}) {
  const int m = schedule.microbatches;
  const int batch = options.plan.batch.sequences / m;
  const Corpus corpus = small_corpus(options.plan.model());
  StageModels stages{rank, options.plan.model(), schedule, 1};
  AdamW optimizer{stages.parameters(), rank.device, options.plan.optimizer};
  const Plan plan = plan_for(rank, options.plan.model(), schedule, batch);
  PipelineUpdate update{rank.endpoint, rank.world, plan, stages.pointers(), optimizer};
  PipelineExecutor pipeline{rank.endpoint, rank.world, schedule, stages.pointers(),
                            stage_boundary(options.plan.model(), batch)};
  Predicted predicted;
  if (live)
    predicted = predict_pipeline(plan, plan.place(rank.id), schedule);
  else
    dry_run_schedule(plan, plan.place(rank.id), schedule).fill(predicted);
  if (live) {
    const StageLayers layers = StageLayers::of(options.plan.model(), rank.id, rank.count);
    const Footprint footprint{options.plan.model(), layers, batch};
    if (*predicted.peak_bytes[MemoryCategory::activations] != footprint.peak(*live))
      return fmt::format("{}, rank {}: predicted for another number of live microbatches than {}",
                         schedule.name, rank.id, *live);
  }
  for (int step = 0; step < 2; ++step) {
    const auto before = rank.transport->bytes_sent();
    rank.memory.reset_peak();
    Batch whole = corpus.batch(1, step, {.microbatches = m, .size = batch});
    move_to(rank.device, whole);
    pipeline.step(whole);
    update.step();
    for (int i = 0; i < memory_category_count; ++i) {
      const auto category = static_cast<MemoryCategory>(i);
      const std::int64_t seen = rank.memory.peak().of(category);
      const std::int64_t derived = *predicted.peak_bytes[category];
      if (seen != derived)
        return fmt::format("{}, rank {}, p {} m {}: {} peak at {} bytes, derived {}", schedule.name,
                           rank.id, rank.count, m, name_of(category), seen, derived);
    }
    if (rank.transport->bytes_sent() - before != bytes_of(predicted))
      return fmt::format("{}, rank {}: other bytes sent than derived", schedule.name, rank.id);
  }
  return "";
}

}  // namespace lockstep::testing
