#include "lessons/17_choosing/plan/evaluate.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/comm/shared/folded_links.h"
#include "lessons/15_3d/mesh_training.h"

namespace lockstep {

namespace {

using Kind = RecordedOperation::Kind;

/// The number of ranks between neighbours on an axis.
int stride_of(const Mesh& mesh, Axis axis) {
  const std::vector<int> group = mesh.group(0, axis);
  return group.size() > 1 ? group[1] - group[0] : 1;
}

/// Whether the ranks of tp hold slices of equal sizes.
bool tp_is_even(const Plan& plan) {
  const std::vector<int> group = plan.mesh.group(0, Axis::tp);
  const auto sizes = [&](int rank) {
    std::vector<std::int64_t> all;
    for (int stage = 0; stage < plan.mesh.size(Axis::pp); ++stage)
      for (const Held& held :
           plan.place(plan.mesh.group(rank, Axis::pp)[static_cast<std::size_t>(stage)]).held)
        all.push_back(held.slice.elements());
    return all;
  };
  const auto first = sizes(group.front());
  return std::ranges::all_of(group, [&](int rank) { return sizes(rank) == first; });
}

}  // namespace

Folding folding_of(const PlannedRun& run) {
  const Mesh& mesh = run.plan.mesh;
  const Cluster& cluster = run.plan.modelled->cluster;
  std::vector<Folding::Axis> axes;
  const auto fold = [&](Axis along, int least) {
    const int size = mesh.size(along);
    for (int step = least; step < size; step += least) {
      if (size % step != 0) continue;
      auto more = axes;
      more.push_back({stride_of(mesh, along), size, step});
      if (!is_symmetric(Folding{more}, cluster, mesh.ranks())) continue;
      axes = more;
      return;
    }
  };
  const bool has_experts = run.chosen.has_experts();
  // Experts divide dp × cp into groups of neighbours; a shift must not divide a group.
  const int ep = has_experts ? mesh.size(Axis::ep) : 1;
  const int least = std::max(1, ep / mesh.size(Axis::cp));
  fold(Axis::dp, std::max(least, run.chosen.shard));
  if (!has_experts && run.plan.model().llama && mesh.size(Axis::tp) > 1 && tp_is_even(run.plan))
    fold(Axis::tp, 1);
  return Folding{axes};
}

RunOperations record_step(const PlannedRun& run, const Folding& folding,
                          std::map<int, DryFigures>* figures) {
  return record_dry_run(
      run.plan,
      [&](DryRank& rank) {
        MeshTraining training{rank, run.chosen};
        PipelineExecutor pipeline = training.pipeline(run.schedule);
        rank.run(run.schedule.microbatches,
                 [&](const Batch& mine) { training.step(pipeline, mine); });
      },
      folding, figures);
}

StepParts parts_of(const Replay& replay, int rank, int step) {
  StepParts parts;
  const auto& sections = replay.run().ranks[static_cast<std::size_t>(rank)].sections;
  const Cluster& cluster = replay.scenario().modelled().cluster;
  struct Issued {
    std::int64_t number;
    const RecordedOperation* operation;
    Picoseconds start, end;
  };
  std::vector<Issued> issued;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    if (sections[i].step != step) continue;
    const Passage section = replay.section(rank, i);
    parts.step += section.end - section.start;
    replay.visit(rank, i, [&](const Replay::Timed& each) {
      const RecordedOperation& operation = each.operation;
      const Picoseconds time = each.end - each.start;
      if (operation.is_issued()) {
        issued.push_back({each.issued, &operation, each.start, each.end});
      } else if (operation.kind == Kind::wait) {
        const Issued& awaited = *std::ranges::lower_bound(issued, each.issued, {}, &Issued::number);
        const RecordedOperation& what = *awaited.operation;
        if (what.kind == Kind::collective) {
          const auto& run = replay.run();
          const std::uint32_t group = run.ranks[static_cast<std::size_t>(rank)]
                                          .groups[static_cast<std::size_t>(what.group)];
          parts.exposed[run.groups[group].name] += time;
        } else if (what.kind == Kind::receive) {
          // Before it left its sender, the message was not computed yet.
          const Picoseconds left =
              awaited.start - cluster.latency(rank + what.peer, rank, what.bytes);
          const Picoseconds late = std::clamp(left, each.start, each.end) - each.start;
          parts.bubble += late;
          parts.exposed[what.axis] += time - late;
        } else {
          parts.exposed[what.axis] += time;
        }
      } else {
        (operation.category == Category::optimizer ? parts.optimizer : parts.compute) += time;
      }
    });
  }
  return parts;
}

StepFigures step_figures(const PlannedRun& run, std::int64_t most_memory) {
  StepFigures figures;
  const RunOperations operations = record_step(run, folding_of(run), &figures.of_rank);
  for (const auto& [rank, dry] : figures.of_rank)
    if (dry.peak_total > figures.peak) {
      figures.peak = dry.peak_total;
      figures.memory = dry.peak;
      figures.fullest = rank;
    }
  if (figures.peak > most_memory) return figures;
  const Scenario scenario{operations.modelled};
  const Replay replay{operations, scenario};
  const int step = replay.last_step();
  figures.step = replay.step_time(step);
  for (const auto& [rank, dry] : figures.of_rank) {
    StepParts parts = parts_of(replay, rank, step);
    if (parts.step > figures.parts.step) {
      figures.parts = std::move(parts);
      figures.slowest = rank;
    }
  }
  return figures;
}

}  // namespace lockstep
