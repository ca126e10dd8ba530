#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exercises/29_defend_your_plan/cases.h"
#include "exercises/29_defend_your_plan/task.h"
#include "exercises/frame/check.h"
#include "lessons/schedules/registry.h"

namespace lockstep::exercises {

/// The schedules that task.h names: all that the lessons generate, except the searched one.
inline std::vector<std::string_view> offered_schedules() {
  std::vector<std::string_view> words;
  for (const KnownSchedule& known : known_schedules())
    if (!known.searched) words.push_back(known.word);
  return words;
}

/// The largest number of ranks among which a plan may divide a sequence.
inline int most_context_ranks(const TrainingTask& task) {
  return std::max(1, task.model.sequence / 4096);
}

/// Returns the plan as a configuration of the planner. Throws Wrong, in the words of task.h, if the
/// case can't be trained in this way.
inline Configuration possible(const Case& each, const TrainingPlan& plan) {
  const auto refuse = [&](const std::string& what, const std::string& why) {
    throw Wrong{fmt::format("{}: {}", each.name, what), why};
  };
  const TrainingTask& task = each.task;
  const auto& [dp, tp, pp, cp, zero, microbatch, word, chunks, recompute] = plan;

  for (const auto& [name, number] : {std::pair{"dp", dp},
                                     {"tp", tp},
                                     {"pp", pp},
                                     {"cp", cp},
                                     {"microbatch", microbatch},
                                     {"chunks", chunks}})
    if (number < 1) refuse(fmt::format("{} is {}", name, number), "It must be at least 1.");
  const double ranks = 1.0 * dp * tp * pp * cp;
  if (ranks != task.ranks)
    refuse(fmt::format("dp {} · tp {} · pp {} · cp {} = {:.10g} ranks, on {} GPUs", dp, tp, pp, cp,
                       ranks, task.ranks),
           "Every GPU has one rank, so the product of the four sizes is the number of GPUs.");
  if (zero < 0 || zero > 3)
    refuse(fmt::format("zero is {}", zero), "It is 0, or a stage of ZeRO: 1, 2 or 3.");
  const std::vector<std::string_view> schedules = offered_schedules();
  if (std::ranges::count(schedules, word) == 0)
    refuse(fmt::format("schedule is \"{}\"", word),
           fmt::format("It must be one of {}.", fmt::join(schedules, ", ")));
  if (recompute != "none" && recompute != "selective" && recompute != "full")
    refuse(fmt::format("recompute is \"{}\"", recompute),
           "It must be one of none, selective, full.");

  const std::int64_t at_once = std::int64_t{dp} * microbatch;
  if (task.batch % at_once != 0)
    refuse(fmt::format("{} sequences do not divide into microbatches of {} on {}", task.batch,
                       microbatch, count_of(dp, "replica")),
           dp > task.batch
               ? "Each replica needs at least one sequence. If there are more GPUs than sequences, "
                 "several GPUs must share one: along tp, pp or cp."
               : "dp · microbatch must divide the batch.");
  const KnownSchedule& known = *find_schedule(word);
  const PipelineSize size{pp, chunks, static_cast<int>(task.batch / at_once)};
  if (chunks < known.least_chunks || chunks > known.most_chunks)
    refuse(fmt::format("{} with {} per rank", known.name, count_of(chunks, "chunk")),
           fmt::format("{} needs {} {}.", known.name,
                       known.least_chunks == known.most_chunks ? "exactly" : "at least",
                       known.least_chunks));
  if (const int least = known.least_microbatches_per_rank * pp; size.microbatches < least)
    refuse(fmt::format("{} with {} on {}", known.name,
                       count_of(size.microbatches, "microbatch", "microbatches"),
                       count_of(pp, "rank")),
           fmt::format("{} needs at least {} microbatches here.", known.name, least));
  if (std::int64_t{pp} * chunks > task.model.layers)
    refuse(fmt::format("pp {} · chunks {} = {} stages for {} blocks", pp, chunks,
                       std::int64_t{pp} * chunks, task.model.layers),
           "Every stage needs at least one block.");
  if (zero >= 2 && word != "1f1b")
    refuse(fmt::format("ZeRO-{} with {}", zero, known.name),
           "The lessons have stages 2 and 3 of ZeRO only with 1f1b: they exchange gradients or "
           "parameters for each microbatch, in the order of its passes.");
  if (task.model.heads % tp != 0 || task.model.kv_heads() % tp != 0)
    refuse(fmt::format("tp {} with {} heads of queries and {} of keys", tp, task.model.heads,
                       task.model.kv_heads()),
           "Tensor parallelism divides attention by heads, so tp must divide both numbers.");
  if (const int most = most_context_ranks(task); cp > most)
    refuse(fmt::format("cp {} with sequences of {} tokens", cp, task.model.sequence),
           fmt::format("Each rank must keep at least 4,096 tokens of a sequence, so cp is at most "
                       "{} here.",
                       most));
  if (recompute == "none" && cp > 1)
    refuse(fmt::format("cp {} without recomputation", cp),
           "A query meets the keys of one rank after another, so there never are all of its "
           "attention probabilities to keep: backward must recompute them.");

  const Configuration chosen{.dp = dp,
                             .tp = tp,
                             .pp = pp,
                             .cp = cp,
                             .zero = zero,
                             .microbatch = microbatch,
                             .schedule = word,
                             .chunks = chunks,
                             .recompute = recompute_of(recompute),
                             .sequence_parallel = tp > 1};
  try {
    planned_run(task, chosen);
  } catch (const std::exception& error) {
    refuse("the lesson can't run this plan", error.what());
  }
  return chosen;
}

}  // namespace lockstep::exercises
