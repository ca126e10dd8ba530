#include "lessons/17_choosing/plan/walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lessons/17_choosing/plan/roofline.h"
#include "lessons/17_choosing/plan/words.h"

namespace lockstep {

namespace {

/// "450 GB/s", or "unlimited".
std::string bandwidth_text(double bytes_per_second, int decimals) {
  return std::isinf(bytes_per_second)
             ? "unlimited"
             : fmt::format("{:.{}f} GB/s", bytes_per_second / 1e9, decimals);
}

/// Returns the largest tp within a node that this model and these ranks allow.
int largest_tp(const TrainingTask& task) {
  int largest = 1;
  for (int t = 1; t <= std::min(task.ranks, task.cluster.ranks_per_node); ++t)
    if (task.ranks % t == 0 && divides(task, t, 1)) largest = t;
  return largest;
}

/// Returns the smallest number of stages with which each rank's states fit in memory, or the
/// largest possible number if none is enough.
int stages_for(const TrainingTask& task, int t) {
  const double memory = static_cast<double>(task.cluster.memory.value_or(std::int64_t{1} << 60));
  int most = 1;
  for (int p = 1; p <= std::min(task.ranks / t, task.model.layers); ++p) {
    if (task.ranks / t % p != 0 || task.batch % (task.ranks / t / p) != 0) continue;
    most = p;
    if (state_bytes(task) / t / p <= memory) return p;
  }
  return most;
}

std::string fits(bool yes) {
  return yes ? "yes" : "no";
}

}  // namespace

double state_bytes(const TrainingTask& task) {
  return 16 * static_cast<double>(total_parameters(task));
}

SearchSpace rules_of_thumb(const TrainingTask& task) {
  SearchSpace space;
  const double memory = static_cast<double>(task.cluster.memory.value_or(std::int64_t{1} << 60));
  space.tp = state_bytes(task) <= memory ? 1 : largest_tp(task);
  space.pp = stages_for(task, *space.tp);
  space.cp = 1;
  return space;
}

std::string decision_tree(const TrainingTask& task) {
  const Cluster& cluster = task.cluster;
  const double state = state_bytes(task);
  const int per_node = std::min(cluster.ranks_per_node, task.ranks);
  std::string text = "Does it fit? (16 bytes per parameter: weight, gradient and Adam's state)\n";
  const auto line = [&](const std::string& what, const std::string& finding) {
    text += fmt::format("  {:<10} {}\n", what, finding);
  };
  if (!cluster.memory) {
    line("memory",
         fmt::format("cluster '{}' has no limit, so everything fits; set one with --memory",
                     cluster.name));
  } else {
    const double memory = static_cast<double>(*cluster.memory);
    const double least = std::ceil(state / memory);
    const std::string all = bytes_text(static_cast<std::int64_t>(state)),
                      one = bytes_text(*cluster.memory);
    line("one GPU", fmt::format("{} of {}: {}", all, one, fits(state <= memory)));
    if (state > memory && per_node > 1)
      line("one node",
           fmt::format("{} of {} × {}: {}", all, per_node, one, fits(state <= per_node * memory)));
    if (state > per_node * memory && task.ranks > per_node)
      line("all", fmt::format("{} of {} × {}: {}", all, task.ranks, one,
                              fits(state <= task.ranks * memory)));
    if (state <= memory)
      line("so",
           "every GPU can hold a replica: data parallelism alone may do (lesson 2), if the "
           "activations fit, too");
    else if (state <= task.ranks * memory)
      line("so",
           fmt::format("at least {:.0f} GPUs must share one copy: by ZeRO along dp (lessons 3 "
                       "to 5), by tp within a node (6, 7) or by pp across nodes (8 to 11)",
                       least));
    else
      line("so", fmt::format("not even shared by all {} GPUs; it needs at least {:.0f}, before any "
                             "activation",
                             task.ranks, least));
  }
  const SearchSpace rules = rules_of_thumb(task);
  const int dp = task.ranks / *rules.tp / *rules.pp;
  line("rules",
       fmt::format("tp first, within a node, then pp; dp takes the rest: TP {}, PP {}, DP {}",
                   *rules.tp, *rules.pp, dp));

  text += fmt::format(
      "\nWhere does each axis hide its communication? (at the peak, {:.0f} TFLOP/s; a GPU's "
      "bandwidth is {} within a node{})\n",
      cluster.flops / 1e12, bandwidth_text(bandwidth_per_gpu(cluster, true), 0),
      task.ranks > cluster.ranks_per_node
          ? fmt::format(" and {} between nodes",
                        bandwidth_text(bandwidth_per_gpu(cluster, false), 1))
          : "");
  std::string shares;
  for (const int t : {2, 4, 8, 16})
    if (t <= task.ranks && t <= 2 * cluster.ranks_per_node)
      shares += fmt::format("{}{:.0f} % at TP {}", shares.empty() ? "" : ", ",
                            100 * tensor_share(task, t), t);
  if (!shares.empty())
    line("tp",
         fmt::format("nowhere, because layers wait for it. It adds to their products' time: {}, "
                     "whatever the batch",
                     shares));
  if (task.ranks > 1 && task.moe.experts == 0) {
    const double tokens = data_tokens(task, task.ranks, per_node);
    const int nodes = task.ranks / per_node;
    line("dp",
         fmt::format("behind the backward pass, if a rank's microbatch has {:.0f} tokens ({:.1f} "
                     "sequences) or more{}. ZeRO-3 needs as many",
                     tokens, tokens / task.model.sequence,
                     nodes < 2 ? ""
                               : fmt::format(" and all GPUs are replicas, which share the cards of "
                                             "their node; {:.0f}, if a node has only one",
                                             data_tokens(task, nodes, 1))));
  }
  if (task.ranks > 1)
    line("pp",
         fmt::format("behind a stage's forward pass, if the stage has {:.2f} blocks or more. Its "
                     "bubble is (p-1)/(vm+p-1) of the step: at most 10 % from m = 9 (p-1)/v on",
                     pipeline_blocks(task, task.ranks <= cluster.ranks_per_node)));
  if (task.ranks > 1)
    line("cp",
         fmt::format("behind attention, if a rank has {:.0f} tokens of each sequence or more{}",
                     context_tokens(task, true),
                     task.ranks > cluster.ranks_per_node
                         ? fmt::format(" (within a node; between nodes, {:.0f})",
                                       context_tokens(task, false))
                         : ""));
  return text;
}

}  // namespace lockstep
