#include "lessons/17_choosing/plan/configuration.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"

namespace lockstep {

namespace {

/// For plans, which are never trained. It stays empty, so threads may share it.
UnreadRoutingLog no_log;

}  // namespace

std::int64_t total_parameters(const TrainingTask& task) {
  Plan plan{task.model};
  set_builder(plan, builder_of(AllAxes{{}, {}, Recompute::selective, task.moe, 1}, no_log));
  std::int64_t elements = 0;
  for (const ParameterSpec& spec : plan.parameters()) elements += spec.shape.elements();
  return elements;
}

double flops_per_token(const TrainingTask& task) {
  const GptConfig& model = task.model;
  const double mlp =
      static_cast<double>(model.hidden) * (model.mlp_inner_width() + model.mlp_width());
  const int more = task.moe.experts > 0 ? task.moe.top_k - 1 : 0;
  return model.flops_per_token() + 6 * mlp * model.layers * more;
}

std::string Configuration::text() const {
  std::string words = fmt::format("TP {}, PP {}, DP {}", tp, pp, dp);
  if (cp > 1) words += fmt::format(", CP {}", cp);
  if (ep > 1) words += fmt::format(", EP {}", ep);
  if (zero > 0) words += fmt::format(", ZeRO-{}", zero);
  if (pp > 1) words += fmt::format(", {}", find_schedule(schedule)->name);
  if (pp > 1 && chunks > 1) words += fmt::format(" × {}", chunks);
  return words + fmt::format(", microbatch {}, recompute {}", microbatch, name_of(recompute));
}

std::string Configuration::flags(const TrainingTask& task) const {
  std::string words = fmt::format(
      "--ranks {} --dp {} --tp {} --pp {} --cp {} --zero {} --batch {} --microbatches {} "
      "--schedule {} --recompute {} --sequence-parallel {} --bucket {}",
      ranks(), dp, tp, pp, cp, zero, task.batch, microbatches(task.batch), schedule,
      name_of(recompute), sequence_parallel ? "on" : "off", task.bucket_bytes);
  if (chunks > 1) words += fmt::format(" --chunks {}", chunks);
  if (cp > 1) words += " --layout zigzag";
  words += fmt::format(" --experts {}", task.moe.experts);
  if (task.moe.experts > 0) words += fmt::format(" --ep {}", ep);
  return words;
}

PlannedRun planned_run(const TrainingTask& task, const Configuration& configuration) {
  const auto& [dp, tp, pp, cp, ep, zero, microbatch, word, chunks, recompute, sequence] =
      configuration;
  for (const auto& [name, number] : {std::pair{"DP", dp},
                                     {"TP", tp},
                                     {"PP", pp},
                                     {"CP", cp},
                                     {"EP", ep},
                                     {"microbatch", microbatch},
                                     {"chunks", chunks}})
    if (number < 1) throw UsageError(fmt::format("{} {} is less than 1", name, number));
  const KnownSchedule* const found = find_schedule(word);
  if (found == nullptr) throw UsageError(fmt::format("there is no schedule '{}'", word));
  const KnownSchedule& known = *found;
  if (recompute == Recompute::none && cp > 1)
    throw UsageError(fmt::format(
        "CP {} without recomputation: attention that meets other ranks' keys never has all "
        "probabilities, so backward recomputes them",
        cp));
  const int per_replica = task.batch / dp;
  if (task.batch % dp != 0 || per_replica % microbatch != 0)
    throw UsageError(fmt::format(
        "a batch of {} sequences does not divide into microbatches of {} on {} replicas",
        task.batch, microbatch, dp));
  const PipelineSize size{pp, chunks, per_replica / microbatch};
  if (const std::string why = refusal(known, size); !why.empty()) throw UsageError(why);
  if (!zero_runs_with(word, zero))
    throw UsageError(fmt::format("ZeRO-{} with {}: only 1F1B has it", zero, known.name));
  if (task.model.layers < size.stages())
    throw UsageError(
        fmt::format("{} layers do not fill {} stages", task.model.layers, size.stages()));

  Plan plan{task.model, Mesh{configuration.ranks(), {tp, cp, dp, pp}}.with_experts(ep)};
  plan.rank_of_stage = placement_of(known, size);
  plan.batch.sequences = task.batch;
  plan.batch.microbatches = size.microbatches;
  if (cp > 1) plan.batch.context = ContextLayout::zigzag;
  plan.optimizer.clip = 0;  // as in the lesson, unless its flags say otherwise
  plan.modelled = {task.cluster};
  plan.on_meta = true;
  AllAxes chosen{{.sequence_parallel = sequence, .zero = zero, .bucket_bytes = task.bucket_bytes},
                 ContextMethod::ring,
                 recompute,
                 task.moe,
                 cp};
  chosen.moe.batch_tokens = static_cast<std::int64_t>(task.batch) * task.model.sequence;
  set_builder(plan, builder_of(chosen, no_log));
  plan.validate();
  return {std::move(plan), chosen, known.generate(ScheduleRequest{size})};
}

}  // namespace lockstep
