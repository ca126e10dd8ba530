#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lessons/09_1f1b/one_f_one_b.h"
#include "lessons/12_expert_parallel/experiment/expert_load.h"
#include "lessons/15_3d/flags_3d.h"
#include "lessons/15_3d/mesh_training.h"
#include "lessons/15_3d/prediction.h"
#include "lessons/16_all_axes/prediction.h"
#include "lessons/schedules/schedule_flags.h"
#include "tests/support/copies_checks.h"
#include "tests/support/portion.h"

/// Checks of data, pipeline, context and tensor parallelism on one mesh that run under both threads
/// and processes. `Chosen` is lesson 15's Composition or LoggedAxes.
namespace lockstep::testing {

/// Lesson 16's techniques, with the log that its ranks and its reference share.
struct LoggedAxes : AllAxes {
  std::shared_ptr<RoutingRecord> log = std::make_shared<RoutingRecord>();
};
inline std::shared_ptr<const ModelBuilder> builder_of(const LoggedAxes& chosen) {
  return lockstep::builder_of(chosen, *chosen.log);
}

/// Sets the properties of the run that the experts need. Call it once the other options are set.
inline void settle_experts(Options& options, LoggedAxes& chosen) {
  Plan& plan = options.plan;
  const int dp = plan.mesh.size(Axis::dp), cp = plan.mesh.size(Axis::cp);
  chosen.moe.batch_tokens = std::int64_t{plan.batch.sequences} * plan.model().sequence;
  chosen.context_ranks = cp;
  chosen.log->set_replay(dp, plan.batch.microbatches, cp);
  set_builder(plan, builder_of(chosen));
}

struct MeshShape {
  int dp = 1, pp = 1, tp = 1, cp = 1;
  int ranks() const { return dp * pp * tp * cp; }
};

/// A model that is small enough to train a few times but still learns. tp and cp may be 1, 2, 3, 4
/// or 8, and pp at most 4; neither tp nor pp divides the vocabulary or the layers.
template <class Chosen = Composition>
Options small_mesh(const MeshShape& mesh, bool tied = false, float clip = 0,
                   const Chosen& chosen = {}) {
  Options options;
  options.plan.set_mesh(Mesh{mesh.ranks(), {mesh.tp, mesh.cp, mesh.dp, mesh.pp}});
  set_model(options.plan, {.layers = 5,
                           .hidden = 48,
                           .heads = 24,
                           .sequence = 12 * mesh.cp,
                           .vocabulary = 257,
                           .tied = tied});
  set_builder(options.plan, builder_of(chosen));
  options.plan.batch.microbatches = 3;
  options.plan.batch.sequences = 12;
  options.run.steps = training_steps();
  options.plan.optimizer.learning_rate = 1e-3F;  // the lessons' default
  options.plan.optimizer.clip = clip;
  options.plan.modelled = {Cluster::load("classroom")};
  return options;
}

/// Draws a small model for a mesh whose ranks divide the heads into `parts` and the sequence into
/// `chunks`. `up_to` draws a number from 1 to its argument.
GptConfig random_model(const MeshShape& mesh, int parts, int chunks, bool tied, auto&& up_to) {
  GptConfig model{.layers = mesh.pp + up_to(4) - 1,
                  .hidden = 0,
                  .heads = parts * up_to(2),
                  .sequence = chunks * up_to(4),
                  .vocabulary = 256 + up_to(30),
                  .tied = tied,
                  .dtype = up_to(3) == 1 ? DType::bf16 : DType::f32};
  model.hidden = model.heads * up_to(9);
  return model;
}

/// A bucket size that gives a stage of small_mesh() several buckets.
constexpr std::int64_t small_buckets = 20'000;

inline std::string text_of(const Composition& chosen) {
  return fmt::format("--zero {} --shard {} --bucket {}{}", chosen.zero, chosen.shard,
                     chosen.bucket_bytes, chosen.sequence_parallel ? " --sequence-parallel" : "");
}

inline std::string text_of(const LoggedAxes& chosen) {
  return fmt::format("{} --method {} --recompute {} --experts {} --top-k {} --capacity {}",
                     text_of(static_cast<const Composition&>(chosen)),
                     lockstep::name_of(chosen.method), lockstep::name_of(chosen.recompute),
                     chosen.moe.experts, chosen.moe.top_k, chosen.moe.capacity_factor);
}

inline Predicted predicted_step(const RankContext& rank, const Schedule& schedule,
                                const Composition& chosen) {
  return predict_3d(rank.plan, rank.place, schedule, chosen);
}
/// The routing of the following step completes this prediction (Predicted::at_end).
inline Predicted predicted_step(const RankContext& rank, const Schedule& schedule,
                                const LoggedAxes& chosen) {
  return predict_all_axes(rank, schedule, chosen, *chosen.log);
}
/// Under mpi, gathers all ranks' routings on rank 0.
inline void gather_routing(Rank&, const Options&, const Composition&) {}
inline void gather_routing(Rank& rank, const Options& options, const LoggedAxes& chosen) {
  if (chosen.has_experts() && options.platform.launch == Launch::mpi)
    collect_routing(rank, *chosen.log);
}
/// Returns the number of tokens for which the ranks and one device chose different experts for a
/// reason other than a near-tie.
inline std::size_t flips_of(const Composition&) {
  return 0;
}
inline std::size_t flips_of(const LoggedAxes& chosen) {
  return static_cast<std::size_t>(std::ranges::count(chosen.log->flips(), false, &Flip::adopted));
}

/// One rank of a run, as in the lessons.
template <class Chosen>
class OnMesh {
 public:
  /// The schedule is 1F1B, unless `other` is given.
  OnMesh(Rank& rank, const Options& options, const Chosen& chosen, const Schedule* other = nullptr)
      : schedule(other != nullptr ? *other
                                  : one_f_one_b(options.plan.mesh.size(Axis::pp),
                                                options.plan.batch.microbatches)),
        predicted(predicted_step(rank, schedule, chosen)),
        rank_(rank),
        options_(options),
        chosen_(chosen),
        training(rank, chosen),
        pipeline_(training.pipeline(schedule)) {}

  std::optional<double> train(const Corpus& corpus, int step) {
    Batch mine = corpus.batch(options_.plan.seed, step, rank_.plan.samples(rank_.place));
    move_to(rank_.device, mine);
    if (predicted.at_end) predicted = predicted_step(rank_, schedule, chosen_);
    const std::optional<double> loss = training.step(pipeline_, mine);
    if (predicted.at_end) predicted.at_end(predicted);
    return loss;
  }

  Schedule schedule;
  Predicted predicted;

 private:
  Rank& rank_;
  const Options& options_;
  Chosen chosen_;

 public:
  MeshTraining training;

 private:
  PipelineExecutor pipeline_;
};

/// Schedules, with their chunks per rank.
inline const std::vector<std::pair<const char*, int>> schedules_on_mesh = {
    {"zb-v", 2},  {"interleaved", 3}, {"zb-h2", 1}, {"dualpipe-v", 2}, {"breadth-first", 2},
    {"zb-h1", 2}, {"automatic", 1},   {"gpipe", 1}, {"zb-h1", 1}};

/// A schedule on a small mesh, and the settings of its run.
struct Scheduled {
  Options options;
  Schedule schedule;
};

/// Sets the placement of a schedule that the lessons generate, and returns the schedule.
inline Schedule place_schedule(Options& options, const Composition& chosen,
                               const KnownSchedule& known, int chunks) {
  const PipelineSize size{options.plan.mesh.size(Axis::pp), chunks,
                          options.plan.batch.microbatches};
  options.plan.rank_of_stage = placement_of(known, size);
  const auto times = [&](const Plan& plan, int m) { return times_3d(plan, m, chosen); };
  return known.generate(request_for(known, options.plan, size, 0, times));
}

/// Returns a run of a schedule that the lessons generate.
inline Scheduled scheduled(const MeshShape& shape, const char* word, int chunks, int microbatches,
                           const Composition& chosen, bool tied = false, float clip = 0) {
  Scheduled run{small_mesh(shape, tied, clip, chosen), {}};
  set_model(run.options.plan, &GptConfig::layers, shape.pp * chunks + 1);
  run.options.plan.batch.microbatches = microbatches;
  run.options.plan.batch.sequences = shape.dp * microbatches;
  run.schedule = place_schedule(run.options, chosen, *find_schedule(word), chunks);
  return run;
}

/// Gathers all ranks' tensors on rank 0. Fails if replicas are not bitwise identical.
inline std::vector<NamedValues> collected(Rank& rank, std::vector<NamedValues> tensors) {
  RankResults mine{.rank = rank.id};
  mine.parameters = std::move(tensors);
  std::vector<RankResults> all;
  for (const std::string& bytes : gather_to_root(*rank.transport, mine.to_bytes()))
    all.push_back(RankResults::from_bytes(bytes));
  return rank.id == 0 ? collect_parameters(all) : std::vector<NamedValues>{};
}

/// Returns the first moments of one device after its first step, which are proportional to the
/// clipped gradients.
inline std::vector<NamedValues> first_momentum(const Options& options) {
  const Plan plan = options.plan.on_one_device();
  SoloDevice device{options.platform.on_gpus()};
  Gpt model{plan, plan.place(0), device};
  AdamW optimizer{model.parameters(), device, options.plan.optimizer};
  const int pieces = options.plan.mesh.size(Axis::dp) * options.plan.batch.microbatches;
  Batch batch = copies_corpus(options.plan.model())
                    .batch(options.plan.seed, 0,
                           {.microbatches = pieces, .size = options.plan.batch.sequences / pieces});
  accumulate_gradients(model, batch);
  optimizer.step();
  std::vector<NamedValues> momentum;
  for (const AdamW::Moments& each : optimizer.moments())
    momentum.push_back(named(device, *each.parameter, each.momentum));
  return momentum;
}

/// Trains the model on a mesh. Compares its results with those of one device, and the bytes sent
/// and memory peaks of the first two steps with the derived values. Returns the errors found on
/// this rank. On rank 0, `outcome` receives the results. The schedule is 1F1B, unless `schedule` is
/// given.
template <class Chosen>
std::string check_mesh(Rank& rank, const Options& options, const Chosen& chosen,
                       Outcome* outcome = nullptr, const Schedule* schedule = nullptr) {
  std::string wrong;
  const auto complain = [&](const std::string& what) {
    wrong += fmt::format("{}, {}{}, rank {}: {}\n", rank.plan.mesh.json(), text_of(chosen),
                         schedule != nullptr ? ", " + schedule->name : "", rank.id, what);
  };
  const Corpus corpus = copies_corpus(options.plan.model());
  OnMesh mine{rank, options, chosen, schedule};
  RankResults record{.rank = rank.id};
  std::vector<NamedValues> momentum;
  for (int step = 0; step < options.run.steps; ++step) {
    const BytesSent before = rank.transport->bytes_sent();
    rank.memory.reset_peak();
    const std::optional<double> loss = mine.train(corpus, step);
    if (loss && rank.place.coordinate(Axis::tp) == 0) record.losses.emplace_back(step, *loss);
    if (step == 0)
      for (const AdamW::Moments& each : mine.training.adamw().moments())
        momentum.push_back(named(rank.device, *each.parameter, each.momentum));
    if (step > 1) continue;  // later steps do not differ
    compare_with_prediction(rank, before, mine.predicted, complain);
  }
  std::vector<NamedValues> values;
  for (const Parameter* each : mine.training.parts())
    values.push_back(named(rank.device, *each, each->master ? each->master : each->value));

  std::vector<RankResults> records;
  for (const std::string& bytes : gather_to_root(*rank.transport, record.to_bytes()))
    records.push_back(RankResults::from_bytes(bytes));
  const std::vector<NamedValues> parameters = collected(rank, std::move(values));
  const std::vector<NamedValues> clipped = collected(rank, std::move(momentum));
  gather_routing(rank, options, chosen);
  if (rank.id != 0) return wrong;

  const std::vector<double> losses = collect_losses(records, options.run.steps);
  const Reference expected = train_on_one_device(
      options, corpus, {{"", 0, options.run.steps, options.plan.batch.microbatches}});
  if (const std::size_t flips = flips_of(chosen); flips > 0)
    complain(fmt::format("{} tokens with other experts than on one device, far from a tie", flips));
  const bool narrow = is_narrow(options.plan.model().dtype);
  const Parity parity = compare(losses, parameters, expected);
  const Tolerance tolerance = narrow ? Tolerance{.loss = 1e-2, .parameter = 0.1}
                                     : Tolerance{.loss = 1e-5, .parameter = 1e-4};
  if (!parity.within(tolerance))
    complain(fmt::format("losses {:.1e}, parameters {:.1e} ({}) from one device",
                         parity.max_relative_loss, parity.max_relative_parameter,
                         parity.worst_parameter));
  if (const double off = worst_difference(clipped, first_momentum(options));
      !(off <= (narrow ? 5e-2 : 1e-5)))
    complain(fmt::format("first momentum {:.1e} from one device", off));
  if (options.run.steps >= training_steps() && !(losses.back() < learned() * losses.front()))
    complain(fmt::format("the loss fell only from {} to {}", losses.front(), losses.back()));
  if (outcome != nullptr) *outcome = {losses, parameters, clipped, {}};
  return wrong;
}

}  // namespace lockstep::testing
