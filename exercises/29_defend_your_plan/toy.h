#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/model/data.h"
#include "core/run/reference/parity.h"
#include "exercises/29_defend_your_plan/cases.h"
#include "lessons/15_3d/mesh_training.h"

namespace lockstep::exercises {

constexpr int toy_ranks = 8, toy_steps = 2;

/// A plan's layout on eight ranks: every axis with several ranks gets two, and if fewer than three
/// axes have several ranks, the largest of them gets more. If all four axes have several ranks, the
/// replicas are left out; then ZeRO divides the states along cp. Schedule, ZeRO and recomputation
/// are the plan's, except that a rank has at most two chunks.
inline Configuration on_toy_mesh(const Configuration& plan) {
  Configuration toy = plan;
  // The first axes are the last to give up ranks.
  const std::array axes{&Configuration::tp, &Configuration::pp, &Configuration::cp,
                        &Configuration::dp};
  for (const auto axis : axes) toy.*axis = std::min(2, plan.*axis);
  if (toy.ranks() > toy_ranks) toy.dp = 1;
  const auto largest = *std::ranges::max_element(axes, {}, [&](auto axis) { return plan.*axis; });
  toy.*largest *= toy_ranks / toy.ranks();
  toy.microbatch = 1;
  toy.chunks = std::min(2, plan.chunks);
  return toy;
}

/// Returns "TP 2, PP 2, DP 1, CP 2".
inline std::string text_of_mesh(const Configuration& toy) {
  return fmt::format("TP {}, PP {}, DP {}, CP {}", toy.tp, toy.pp, toy.dp, toy.cp);
}

/// Returns the run of a toy model of the case's family with this layout.
inline PlannedRun toy_run(const Case& each, const Configuration& toy, std::uint64_t seed) {
  TrainingTask task;
  task.ranks = toy.ranks();
  // The blocks do not divide evenly among the stages, nor the vocabulary among the ranks.
  task.model = {.layers = toy.pp * toy.chunks + 1,
                .hidden = 64,
                .heads = 8,
                .sequence = 8 * toy.tp * toy.cp,
                .vocabulary = 257};
  if (each.task.model.llama)
    task.model.llama = LlamaConfig{.kv_heads = 8, .mlp_width = 96, .theta = 10'000};
  task.batch = 2 * toy.pp * toy.dp;
  task.bucket_bytes = 20'000;
  PlannedRun run = planned_run(task, toy);
  run.plan.on_meta = false;
  run.plan.seed = seed;
  return run;
}

inline Corpus toy_corpus(const PlannedRun& run) {
  std::string text;
  for (int i = 0; i < 200; ++i)
    text += fmt::format("plan {} has {} GB to spare on rank {}. ", i % 5, (i * i) % 13, i % 8);
  return Corpus{text, run.plan.model()};
}

/// Trains the toy on one of its ranks. Returns the rank's shares of the losses, by step: their sum
/// over the ranks is the loss.
inline std::vector<float> train_toy(const RankContext& rank, const PlannedRun& run) {
  const Corpus corpus = toy_corpus(run);
  MeshTraining training{rank, run.chosen};
  PipelineExecutor pipeline = training.pipeline(run.schedule);
  std::vector<float> shares;
  for (int step = 0; step < toy_steps; ++step) {
    Batch mine = corpus.batch(run.plan.seed, step, run.plan.samples(rank.place));
    move_to(rank.device(), mine);
    const std::optional<double> loss = training.step(pipeline, mine);
    // All ranks of a tensor-parallel group have the same share.
    const bool counts = loss && rank.place.coordinate(Axis::tp) == 0;
    shares.push_back(counts ? static_cast<float>(*loss) : 0);
  }
  return shares;
}

/// Returns "" if the ranks' shares add up to the losses of one device, otherwise says how they
/// differ.
inline std::string difference_from_one_device(const PlannedRun& run,
                                              const std::vector<std::vector<float>>& shares) {
  Options options;
  options.plan = run.plan;
  const Reference one = train_on_one_device(options, toy_corpus(run),
                                            {{"", 0, toy_steps, run.plan.batch.microbatches}});
  for (std::size_t step = 0; step < toy_steps; ++step) {
    double sum = 0;
    for (const std::vector<float>& rank : shares) sum += rank.at(step);
    if (std::abs(sum - one.losses[step]) > 1e-5 * one.losses[step])
      return fmt::format("in step {}, the loss is {}, and {} on one device", step, sum,
                         one.losses[step]);
  }
  return "";
}

}  // namespace lockstep::exercises
