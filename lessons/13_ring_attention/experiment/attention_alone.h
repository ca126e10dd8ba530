#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/run/lesson.h"
#include "core/run/rank/thread_ranks.h"
#include "lessons/13_ring_attention/context_parallel.h"

namespace lockstep {

/// One attention layer by itself: its cluster, its ranks and its tensors.
struct AttentionAlone {
  Cluster cluster;
  int ranks = 4;
  int batch = 1;
  GptConfig model{};  ///< `sequence` is the length over all ranks
  ContextMethod method = ContextMethod::ring;
  ContextLayout layout = ContextLayout::contiguous;
  /// Whether launches, memory traffic, and therefore the merges take time, too.
  bool all_costs = false;

  /// Returns the tokens per rank.
  std::int64_t block() const { return model.sequence / ranks; }
  /// Returns the time that the layer's causal FLOPs would take if they were divided evenly. The
  /// backward pass has 2.5 times as many FLOPs as the forward pass.
  double ideal_seconds(bool with_backward) const {
    const double s = model.sequence, b = batch, h = model.hidden;
    return (with_backward ? 3.5 : 1.0) * 2 * b * s * s * h / ranks / cluster.flops;
  }
};

/// The times at which the last rank ends.
struct AttentionTimes {
  Picoseconds forward = 0;
  Picoseconds with_backward = 0;
};

/// Runs the layer on meta ranks that are threads of this process, on the modelled clock. Unless
/// `all_costs` is set, kernels cost only their FLOPs: launches and memory traffic, and with them
/// the merges, are free.
inline AttentionTimes time_attention(const AttentionAlone& alone) {
  Options options;
  options.plan.set_mesh(Mesh::along(Axis::cp, alone.ranks));
  set_model(options.plan, alone.model);
  options.plan.batch.context = alone.layout;
  set_builder(options.plan, std::make_shared<const ContextParallel<>>(alone.method));
  options.plan.batch.sequences = alone.batch;
  options.plan.batch.microbatches = 1;
  options.platform.device = "meta";
  options.output.trace = "none";
  Cluster cluster = alone.cluster;
  cluster.groups.clear();  // the formulas are those of equal ranks
  if (!alone.all_costs) {
    cluster.launch_seconds = 0;
    cluster.memory_bandwidth = std::numeric_limits<double>::infinity();
  }
  options.plan.modelled = {cluster};

  ThreadFabric fabric{alone.ranks};
  const GpuPlan no_gpus;
  ThreadRanks ranks{options, fabric, no_gpus};
  std::vector<AttentionTimes> times(static_cast<std::size_t>(alone.ranks));
  ranks.run([&](Rank& rank) {
    const GptConfig& model = alone.model;
    const auto layer = options.plan.builder()->attention_core({.config = model,
                                                               .device = rank.device,
                                                               .layer = 0,
                                                               .groups = &rank.groups,
                                                               .context = alone.layout});
    const auto activation = [&](int width) {
      return Tensor{rank.memory,
                    {alone.batch, alone.block(), width},
                    MemoryCategory::activations,
                    model.dtype};
    };
    AttentionTimes& mine = times[static_cast<std::size_t>(rank.id)];
    Stash stash;
    layer->forward(activation(model.qkv_width()), stash);
    mine.forward = rank.compute.now();
    layer->backward_input(activation(model.hidden), stash);
    mine.with_backward = rank.compute.now();
  });
  if (const std::string failure = fabric.failure(); !failure.empty()) throw RunError(failure);
  AttentionTimes last;
  for (const AttentionTimes& each : times) {
    last.forward = std::max(last.forward, each.forward);
    last.with_backward = std::max(last.with_backward, each.with_backward);
  }
  return last;
}

/// Returns a table of ring attention's efficiency, the ideal time divided by the modelled time, in
/// both layouts. The sequence grows from row to row, until its hops are hidden.
inline std::string attention_table(AttentionAlone alone) {
  const double n = alone.ranks;
  std::string text = fmt::format(
      "  ring attention alone on {} ranks of cluster {}: share of the ideal time, without launches "
      "and merges\n"
      "  {:>10}  {:>10}  {:>10}   contiguous: forward  + backward   zigzag: forward  + backward\n",
      alone.ranks, alone.cluster.name, "block c", "hop", "half block");
  constexpr int most_rows = 12, longest = 1 << 24;
  for (int row = 0; row < most_rows && alone.model.sequence <= longest; ++row) {
    const std::int64_t c = alone.block();
    const std::int64_t bytes = 2 * alone.batch * c * alone.model.kv_width() *
                               static_cast<std::int64_t>(size_of(alone.model.dtype));
    const double hop =
        seconds(alone.cluster.transfer(0, 1, bytes) + alone.cluster.latency(0, 1, bytes));
    // Half of the c x c scores: 4 b c² h FLOPs in all.
    const double half =
        2.0 * alone.batch * static_cast<double>(c * c) * alone.model.hidden / alone.cluster.flops;
    std::string efficiencies;
    for (const ContextLayout layout : {ContextLayout::contiguous, ContextLayout::zigzag}) {
      alone.layout = layout;
      const AttentionTimes times = time_attention(alone);
      efficiencies += fmt::format("{:>{}.1f} %   {:>7.1f} %",
                                  100 * alone.ideal_seconds(false) / seconds(times.forward),
                                  layout == ContextLayout::contiguous ? 19 : 16,
                                  100 * alone.ideal_seconds(true) / seconds(times.with_backward));
    }
    text += fmt::format("  {:>10}  {:>7.3f} µs  {:>7.3f} µs {}\n", c, hop * 1e6, half * 1e6,
                        efficiencies);
    if (hop <= half) break;
    alone.model.sequence *= 2;
  }
  return text + fmt::format("  contiguous blocks whose hops are hidden: N/(2N-1) = {:.1f} %\n",
                            100 * n / (2 * n - 1));
}

constexpr const char* name_of(ContextLayout layout) {
  return layout == ContextLayout::contiguous ? "contiguous"
         : layout == ContextLayout::zigzag   ? "zigzag"
         : layout == ContextLayout::striped  ? "striped"
                                             : "balanced";
}

/// The efficiency of ring attention at measured rates, with all costs.
struct MeasuredAttention {
  ContextLayout layout;
  double forward = 0, with_backward = 0;  ///< ideal time / time
};

/// Compares ring attention with the attention of one device to a sequence of one rank's c tokens,
/// as benchmarks do. All ranks together do N² times that work, so each ideally takes N times as
/// long.
inline std::vector<MeasuredAttention> measured_attention(AttentionAlone alone) {
  alone.all_costs = true;
  AttentionAlone one = alone;
  one.ranks = 1;
  one.model.sequence = static_cast<int>(alone.block());
  const AttentionTimes ideal = time_attention(one);
  std::vector<MeasuredAttention> all;
  for (const ContextLayout layout :
       {ContextLayout::contiguous, ContextLayout::zigzag, ContextLayout::striped}) {
    if (layout == ContextLayout::zigzag && alone.block() % 2 != 0) continue;
    alone.layout = layout;
    const AttentionTimes times = time_attention(alone);
    const auto share = [&](Picoseconds ideally, Picoseconds took) {
      return alone.ranks * static_cast<double>(ideally) / static_cast<double>(took);
    };
    all.push_back({layout, share(ideal.forward, times.forward),
                   share(ideal.with_backward, times.with_backward)});
  }
  return all;
}

/// Prints the table for the run's model and cluster and, at measured rates, the efficiency of this
/// run's length with all costs, which also goes into the report. On the wall clock, there is no
/// cluster.
inline void show_attention(Lesson& lesson, const Rank& rank) {
  const Plan& plan = rank.plan;
  const int n = plan.mesh.size(Axis::cp);
  constexpr int most = 64;  // each rank is a thread
  if (rank.id != 0 || !plan.modelled || n == 1 || n > most) return;
  const AttentionAlone alone{.cluster = plan.modelled->cluster,
                             .ranks = n,
                             .batch = plan.microbatch_size(plan.batch.microbatches),
                             .model = plan.model()};
  const bool prints = !lesson.options().output.quiet;
  if (prints) fmt::print("\n{}", attention_table(alone));
  if (!alone.cluster.rates) return;
  if (prints)
    fmt::print(
        "  at measured rates, with launches and merges, blocks of {}: share of the time of one "
        "device with one block\n",
        alone.block());
  std::string json;
  for (const auto& [layout, forward, with_backward] : measured_attention(alone)) {
    if (prints)
      fmt::print("  {:>12}: forward {:>5.1f} %  + backward {:>5.1f} %\n", name_of(layout),
                 100 * forward, 100 * with_backward);
    json += fmt::format("{}\"{}\":{{\"forward\":{:.6f},\"with_backward\":{:.6f}}}",
                        json.empty() ? "" : ",", name_of(layout), forward, with_backward);
  }
  lesson.add_to_report(rank, "attention", "{" + json + "}");
}

}  // namespace lockstep
