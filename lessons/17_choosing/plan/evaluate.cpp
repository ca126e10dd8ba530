#include "lessons/17_choosing/plan/evaluate.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "core/comm/shared/folded_links.h"
#include "core/plan/flat_layout.h"
#include "lessons/15_3d/mesh_training.h"
#include "lessons/15_3d/prediction.h"

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

/// Returns the axis along which a group's collective communicates. The group of all ranks is that
/// of an axis without others; only experts exchange all to all. Ring attention sends messages, so
/// the collectives of cp sum gradients: with one replica, cp uses the group of dp_cp.
std::string axis_of(const std::string& group, Operation operation, const Mesh& mesh) {
  if (operation == Operation::all_to_all) return "ep";
  if (group == "world") return mesh.size(Axis::tp) == mesh.ranks() ? "tp" : "dp";
  return group == "tp" ? group : "dp";
}

/// The parameters that a replica owns under ZeRO. Shards have equal sizes, but hold different
/// parameters.
struct Owned {
  std::int64_t elements = 0;  ///< without padding, which the optimizer does not update
  std::int64_t norms = 0;     ///< elements of norms, whose gradients are summed over tp
  std::int64_t parts = 0;     ///< of parameters, for each of which the optimizer keeps a number
};

/// Returns how much each replica owns, by rank, for the replicas for which the representative of
/// `rank` stands.
std::map<int, Owned> owned_by_replicas(const PlannedRun& run, const Folding& folding, int rank) {
  std::map<int, Owned> all;
  const Place place = run.plan.place(rank);
  std::vector<FlatLayout> layouts;
  for (const int stage : place.stages)
    layouts.emplace_back(run.plan.units(place, stage), run.chosen.sharers(place),
                         run.chosen.bucket_bytes);
  const std::vector<int>& sharers = place.group(Axis::dp_cp);
  for (const int other : place.group(Axis::dp)) {
    if (folding.representative(other) != folding.representative(rank)) continue;
    const auto shard = static_cast<int>(std::ranges::find(sharers, other) - sharers.begin());
    Owned& owned = all[other];
    for (const FlatLayout& layout : layouts)
      for (const FlatLayout::Bucket& bucket : layout.buckets())
        for (const FlatLayout::Piece& piece : layout.shard(bucket, shard % layout.shards())) {
          ++owned.parts;
          owned.elements += piece.elements;
          if (is_norm(run.plan.model(), bucket.slots[piece.slot].parameter.order))
            owned.norms += piece.elements;
        }
  }
  return all;
}

/// Of the replicas for which the representative of `rank` stands, returns the one that owns most.
int replica_with_most(const PlannedRun& run, const Folding& folding, int rank,
                      std::int64_t Owned::*what) {
  const auto all = owned_by_replicas(run, folding, rank);
  return std::ranges::max_element(all, {}, [&](const auto& each) { return each.second.*what; })
      ->first;
}

/// Whether the gradients of norms are summed over tp, by the replica that owns them.
bool sums_norms(const PlannedRun& run) {
  return run.chosen.zero > 0 && run.chosen.sequence_parallel && run.plan.mesh.size(Axis::tp) > 1;
}

/// Whether replicas that are folded differ in the time of a step: by the elements that they update,
/// or by the norms whose gradients they sum.
bool differ(const PlannedRun& run, const Folding& folding) {
  if (run.chosen.zero == 0 || !folding.folds()) return false;
  return std::ranges::any_of(run.plan.mesh.group(0, Axis::pp), [&](int rank) {
    const auto all = owned_by_replicas(run, folding, rank);
    const Owned& first = all.begin()->second;
    return std::ranges::any_of(all, [&](const auto& each) {
      const Owned& owned = each.second;
      return owned.elements != first.elements || (sums_norms(run) && owned.norms != first.norms);
    });
  });
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
  const int least = std::lcm(ep, mesh.size(Axis::cp)) / mesh.size(Axis::cp);
  fold(Axis::dp, least);
  if (!has_experts && run.plan.model().llama && mesh.size(Axis::tp) > 1 && tp_is_even(run.plan))
    fold(Axis::tp, 1);
  Folding folding{axes};
  const auto work = static_cast<std::int64_t>(mesh.ranks()) * run.schedule.microbatches *
                    (run.plan.model().layers / mesh.size(Axis::pp) + 1);
  constexpr std::int64_t little = 50'000;  // passes of a block, on all ranks
  if (work < little && differ(run, folding)) return {};
  return folding;
}

RunOperations record_step(const PlannedRun& run, const Folding& folding,
                          std::map<int, DryFigures>* figures) {
  // Replicas wait for the one whose gradients of norms take longest to sum over tp.
  const std::function<int(int)> slowest = [&](int representative) {
    const std::vector<int> tp = run.plan.mesh.group(representative, Axis::tp);
    const int first = replica_with_most(run, folding, tp.front(), &Owned::norms);
    return representative + first - tp.front();
  };
  return record_dry_run(
      run.plan,
      [&](DryRank& rank) {
        MeshTraining training{rank, run.chosen};
        PipelineExecutor pipeline = training.pipeline(run.schedule);
        rank.run(run.schedule.microbatches,
                 [&](const Batch& mine) { training.step(pipeline, mine); });
      },
      folding, sums_norms(run) && folding.folds() ? slowest : nullptr, figures);
}

StepParts parts_of(const Replay& replay, int rank, int step, const Mesh& mesh) {
  StepParts parts;
  const auto add = [&](const std::string& axis, const std::string& group, Picoseconds time) {
    parts.exposed[axis] += time;
    parts.groups[axis].insert(group);
  };
  const auto& sections = replay.run().ranks[static_cast<std::size_t>(rank)].sections;
  struct Issued {
    std::int64_t number;
    const RecordedOperation* operation;
    Picoseconds departure;
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
        issued.push_back({each.issued, &operation, each.departure});
      } else if (operation.kind == Kind::wait) {
        const Issued& awaited = *std::ranges::lower_bound(issued, each.issued, {}, &Issued::number);
        const RecordedOperation& what = *awaited.operation;
        if (what.kind == Kind::collective) {
          const auto& run = replay.run();
          const std::uint32_t group = run.ranks[static_cast<std::size_t>(rank)]
                                          .groups[static_cast<std::size_t>(what.group)];
          add(axis_of(run.groups[group].name, what.collective.operation, mesh),
              run.groups[group].name, time);
        } else if (std::string_view{what.axis} != "pp") {
          add("cp", what.axis, time);  // the only other messages: a ring's
        } else if (what.kind == Kind::receive) {
          // Before it left its stage, the message was not computed yet.
          const Picoseconds late = std::clamp(awaited.departure, each.start, each.end) - each.start;
          parts.bubble += late;
          add("pp", what.axis, time - late);
        } else {
          add("pp", what.axis, time);
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
  const auto keep_fullest = [&](int rank, const DryFigures& dry) {
    if (dry.peak_total <= figures.peak) return;
    figures.peak = dry.peak_total;
    figures.memory = dry.peak;
    figures.fullest = rank;
  };
  for (const auto& [rank, dry] : figures.of_rank) keep_fullest(rank, dry);
  if (run.chosen.zero > 0 && operations.folding.folds())
    if (const int rank = replica_with_most(run, operations.folding, figures.fullest, &Owned::parts);
        rank != figures.fullest)
      keep_fullest(rank, dry_run_mesh(run.plan, run.plan.place(rank), run.schedule, run.chosen));
  if (figures.peak > most_memory) return figures;
  figures.exact = !differ(run, operations.folding);
  const Scenario scenario{operations.modelled};
  const Replay replay{operations, scenario};
  const int step = replay.last_step();
  figures.step = replay.step_time(step);
  for (const auto& [rank, dry] : figures.of_rank) {
    StepParts parts =
        parts_of(replay, operations.folding.representative(rank), step, run.plan.mesh);
    if (parts.step > figures.parts.step) {
      figures.parts = std::move(parts);
      figures.slowest = rank;
    }
  }
  return figures;
}

}  // namespace lockstep
