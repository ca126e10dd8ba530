#include "lessons/17_choosing/plan/space.h"

#include <algorithm>

namespace lockstep {

namespace {

std::vector<int> divisors(int number, int most) {
  std::vector<int> found;
  for (int each = 1; each <= std::min(number, most); ++each)
    if (number % each == 0) found.push_back(each);
  return found;
}

std::vector<int> powers_of_two(int most) {
  std::vector<int> found;
  for (int each = 1; each <= most; each *= 2) found.push_back(each);
  return found;
}

/// Returns the values of `all`, or only the one that is asked for.
template <class T>
std::vector<T> only(const std::optional<T>& asked, std::vector<T> all) {
  return asked ? std::vector<T>{*asked} : all;
}

/// Returns the meshes that the ranks can form and that divide the model and the batch.
std::vector<Configuration> meshes(const TrainingTask& task, const SearchSpace& space) {
  std::vector<Configuration> all;
  const GptConfig& model = task.model;
  // Beyond two nodes, exchanges in every layer are too slow.
  for (const int tp : only(space.tp, divisors(task.ranks, 2 * task.cluster.ranks_per_node)))
    for (const int cp : only(space.cp, powers_of_two(std::max(1, model.sequence / 4096))))
      for (const int pp : only(space.pp, divisors(task.ranks, model.layers))) {
        const std::int64_t others = std::int64_t{1} * tp * cp * pp;
        if (others > task.ranks || task.ranks % others != 0) continue;
        const int dp = static_cast<int>(task.ranks / others);
        if (space.dp.value_or(dp) != dp || task.batch % dp != 0 || !divides(task, tp, cp)) continue;
        for (const int ep : only(space.ep, divisors(dp * cp, std::max(1, task.moe.experts))))
          if (std::max(1, task.moe.experts) % ep == 0 && dp * cp % ep == 0)
            all.push_back({.dp = dp,
                           .tp = tp,
                           .pp = pp,
                           .cp = cp,
                           .ep = ep,
                           .sequence_parallel = tp > 1 && task.sequence_parallel});
      }
  return all;
}

/// Returns a mesh with all microbatches, schedules and numbers of chunks that it allows.
std::vector<Configuration> with_pipelines(const TrainingTask& task, const SearchSpace& space,
                                          const Configuration& mesh) {
  std::vector<Configuration> all;
  // A single stage needs no schedule.
  const std::vector<std::string> schedules =
      mesh.pp > 1 ? only(space.schedule, space.schedules)
                  : std::vector<std::string>{space.schedule.value_or("1f1b")};
  for (const int microbatch : only(space.microbatch, powers_of_two(32))) {
    if (task.batch / mesh.dp % microbatch != 0 ||
        task.batch / mesh.dp / microbatch > most_microbatches)
      continue;
    for (const std::string& schedule : schedules) {
      const KnownSchedule& known = *find_schedule(schedule);
      // Schedules that work without several chunks per rank are tried with one.
      const bool needs_some = known.least_chunks > 1 && known.most_chunks > known.least_chunks;
      const std::vector<int> chunks = needs_some
                                          ? divisors(task.model.layers, task.model.layers / mesh.pp)
                                          : std::vector{known.least_chunks};
      for (const int each : only(space.chunks, chunks)) {
        const PipelineSize size{mesh.pp, each, task.batch / mesh.dp / microbatch};
        if (!refusal(known, size).empty() || size.stages() > task.model.layers) continue;
        Configuration& added = all.emplace_back(mesh);
        added.microbatch = microbatch;
        added.schedule = schedule;
        added.chunks = each;
      }
    }
  }
  return all;
}

}  // namespace

bool divides(const TrainingTask& task, int tp, int cp) {
  const GptConfig& model = task.model;
  const bool sequence_parallel = tp > 1 && task.sequence_parallel;
  const int chunks = cp * (sequence_parallel ? tp : 1) * (cp > 1 ? 2 : 1);
  return model.heads % tp == 0 && model.kv_heads() % tp == 0 && model.mlp_width() % tp == 0 &&
         model.sequence % chunks == 0;
}

std::vector<Configuration> configurations(const TrainingTask& task, const SearchSpace& space) {
  const std::vector<Recompute> modes{Recompute::none, Recompute::selective, Recompute::full};
  std::vector<Configuration> all;
  for (const Configuration& mesh : meshes(task, space))
    for (Configuration each : with_pipelines(task, space, mesh))
      for (const int zero : only(space.zero, std::vector{0, 1, 2, 3})) {
        const bool divides_nothing = mesh.dp * mesh.cp == 1 && !space.zero;
        // Lesson 17 does not support ZeRO with experts.
        if (zero > 0 && (divides_nothing || task.moe.experts > 0)) continue;
        if (!zero_runs_with(each.schedule, zero)) continue;
        for (const Recompute mode : only(space.recompute, modes)) {
          // Attention to other ranks' keys keeps no probabilities.
          if (mode == Recompute::none && mesh.cp > 1) continue;
          each.zero = zero;
          each.recompute = mode;
          all.push_back(each);
        }
      }
  return all;
}

}  // namespace lockstep
