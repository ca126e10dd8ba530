#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "core/comm/transport/control.h"
#include "core/pipeline/executor.h"
#include "core/run/lesson.h"
#include "core/text/text_table.h"
#include "lessons/19_unlike_machines/foresee.h"

namespace lockstep {

/// Which rank sets the pace of a run, as observed in its last step on the modelled clock, and how
/// its division compares with the even one. Needs no trace.
class PaceTable {
 public:
  PaceTable(Rank& rank, const Composition& chosen) : rank_(rank), chosen_(chosen) {}

  void begin_step() { began_ = rank_.compute.now(); }
  /// Call this at the end of the step. `ran` are the times of this rank's actions.
  void end_step(const PipelineExecutor::Ran& ran) {
    step_ = rank_.compute.now() - began_;
    busy_ = ran.busy;
  }

  /// Prints the table on rank 0, compares it with the even division, and adds both to the report.
  /// All ranks must call it.
  void report(Lesson& lesson, const WorkDivision& even) const {
    const Plan& plan = rank_.plan;
    if (!plan.modelled) return;
    const auto all = gather_to_root(*rank_.transport, fmt::format("{} {}", step_, busy_));
    if (rank_.id > 0) return;
    std::vector<StageWork> observed;
    Picoseconds step = 0;
    for (int rank = 0; rank < rank_.count; ++rank) {
      std::istringstream its{all[static_cast<std::size_t>(rank)]};
      Picoseconds own = 0, busy = 0;
      its >> own >> busy;
      step = std::max(step, own);
      const int replica = plan.mesh.coordinate(rank, Axis::dp);
      const int m = plan.microbatches_of(replica, plan.batch.microbatches);
      observed.push_back({rank, plan.place(rank).only_stage(), replica, m, busy / m});
    }
    const bool is_even = division_of(plan) == even;
    const Plan even_plan = divided(plan, even);
    const std::vector<StageWork> before =
        plan.model().layers < 3 ? std::vector<StageWork>{} : work_of_ranks(even_plan);
    const Foreseen even_step = foresee(even_plan, chosen_);
    const Foreseen this_step = is_even ? even_step : foresee(plan, chosen_);
    std::string json = fmt::format(R"({{"even":{},"this":{},"observed_step_picoseconds":{}}})",
                                   json_of(even_plan, even_step, before),
                                   json_of(plan, this_step, observed), step);
    lesson.add_to_report(rank_, "divisions", json);
    if (lesson.options().output.quiet) return;
    fmt::print("\n{}", ranks_table(plan, observed, step));
    fmt::print("\n");
    if (!before.empty()) print_division("the even division", even_plan, before, even_step);
    if (!is_even) print_division("this division", plan, observed, this_step);
    fmt::print("observed in the last step: {} ms\n", ms(step));
    if (!is_even)
      fmt::print("the even division takes {:.2f} times as long\n",
                 static_cast<double>(even_step.step) / static_cast<double>(this_step.step));
  }

 private:
  static constexpr std::size_t most_rows = 32;
  static constexpr int most_replicas = 8;

  static std::string pace_words(const Plan& plan, const StageWork& work) {
    return fmt::format("stage {} of replica {} sets the pace: rank {}, {}; {} ms x {} = {} ms",
                       work.stage, work.replica, work.rank,
                       plan.modelled->cluster.device_name(work.rank), ms(work.microbatch),
                       work.microbatches, ms(work.all()));
  }

  static void print_division(const std::string& name, const Plan& plan,
                             const std::vector<StageWork>& work, const Foreseen& foreseen) {
    const WorkDivision division = division_of(plan);
    fmt::print("{}: {} ms predicted\n", name, ms(foreseen.step));
    for (const int first : plan.mesh.group(0, Axis::dp)) {
      const int replica = plan.mesh.coordinate(first, Axis::dp);
      if (replica == most_replicas) {
        fmt::print("  ... and so on, {} replicas\n", division.shares.size());
        break;
      }
      std::vector<std::string> stages;
      for (int stage = 0; stage < plan.stages(); ++stage) {
        const int rank = plan.rank_holding(stage, first);
        stages.push_back(
            fmt::format("rank {} ({})", rank, plan.modelled->cluster.device_name(rank)));
      }
      const int m = division.shares[static_cast<std::size_t>(replica)];
      fmt::print("  replica {}: {} microbatch{}, stages on {}\n", replica, m, m == 1 ? "" : "es",
                 fmt::join(stages, ", "));
    }
    fmt::print("  blocks of the stages: {}\n  {}\n", fmt::join(division.split, ","),
               pace_words(plan, pace_setter(work)));
    if (const int rank = rank_over_memory(plan, foreseen.peak); rank >= 0)
      fmt::print("  it does not fit: rank {} needs {} of {}\n", rank,
                 human_bytes(foreseen.peak[static_cast<std::size_t>(rank)]),
                 human_bytes(*memory_of(plan.modelled->cluster, rank)));
  }

  std::string ranks_table(const Plan& plan, const std::vector<StageWork>& observed,
                          Picoseconds step) const {
    TableRows rows{{"rank", "device", "replica", "stage", "blocks", "ms per microbatch",
                    "microbatches", "compute", "of the step"}};
    const std::vector<int> blocks = plan.blocks_of_stages();
    for (const StageWork& each : observed) {
      if (rows.size() > most_rows) break;
      rows.push_back({std::to_string(each.rank), plan.modelled->cluster.device_name(each.rank),
                      std::to_string(each.replica), std::to_string(each.stage),
                      std::to_string(blocks[static_cast<std::size_t>(each.stage)]),
                      ms(each.microbatch), std::to_string(each.microbatches),
                      ms(each.all()) + " ms",
                      percent(static_cast<double>(each.all()) / static_cast<double>(step))});
    }
    return table(rows);
  }

  static std::string json_of(const Plan& plan, const Foreseen& foreseen,
                             const std::vector<StageWork>& work) {
    const WorkDivision division = division_of(plan);
    std::vector<int> ranks;
    for (int rank = 0; rank < plan.mesh.ranks(); ++rank)
      ranks.push_back(plan.place(rank).only_stage());
    std::string pace = "null";
    if (!work.empty()) {
      const StageWork& its = pace_setter(work);
      pace = fmt::format(R"({{"rank":{},"stage":{},"replica":{},"picoseconds":{}}})", its.rank,
                         its.stage, its.replica, its.all());
    }
    return fmt::format(
        R"({{"split":[{}],"shares":[{}],"place":[{}],"stage_of_rank":[{}],"predicted_step_picoseconds":{},"peaks":[{}],"pace":{}}})",
        fmt::join(division.split, ","), fmt::join(division.shares, ","),
        fmt::join(division.placement, ","), fmt::join(ranks, ","), foreseen.step,
        fmt::join(foreseen.peak, ","), pace);
  }

  Rank& rank_;
  Composition chosen_;
  Picoseconds began_ = 0, step_ = 0, busy_ = 0;
};

}  // namespace lockstep
