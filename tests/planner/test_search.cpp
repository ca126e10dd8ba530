// Compares the search with all configurations of small tasks.

#include <doctest/doctest.h>

#include <algorithm>

#include "core/base/error.h"
#include "lessons/17_choosing/plan/search.h"

using namespace lockstep;

namespace {

/// A task on few ranks of a cluster whose communication is slow compared with its compute.
TrainingTask small_task(const std::string& cluster, int ranks, bool llama, int batch,
                        double memory = 1e18) {
  TrainingTask task;
  task.model = {.layers = 8, .hidden = 512, .heads = 8, .sequence = 512, .vocabulary = 1024};
  if (llama) task.model.llama = LlamaConfig{.kv_heads = 4, .mlp_width = 1536};
  task.model.dtype = DType::bf16;
  task.cluster = Cluster::load(cluster);
  task.cluster.memory = static_cast<std::int64_t>(memory);
  task.ranks = ranks;
  task.batch = batch;
  task.bucket_bytes = 2'000'000;
  return task;
}

struct Evaluated {
  Configuration configuration;
  StepFigures figures;
};

/// Evaluates all configurations that the search considers.
std::vector<Evaluated> all_of(const TrainingTask& task, const SearchSpace& space) {
  std::vector<Evaluated> all;
  for (const Configuration& each : configurations(task, space))
    all.push_back({each, step_figures(planned_run(task, each))});
  return all;
}

SearchSpace all_schedules() {
  SearchSpace space;
  space.schedules = {"1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe-v"};
  return space;
}

}  // namespace

TEST_CASE("No configuration takes less time or memory than its lower bounds") {
  std::size_t tried = 0;
  double closest = 0;
  const auto check = [&](const TrainingTask& task, const SearchSpace& space) {
    for (const auto& [configuration, figures] : all_of(task, space)) {
      const LowerBounds bounds =
          lower_bounds(task, configuration, model_costs(task, configuration));
      INFO(configuration.text());
      CHECK(bounds.step <= figures.step);
      CHECK(bounds.memory <= figures.peak);
      closest =
          std::max(closest, static_cast<double>(bounds.step) / static_cast<double>(figures.step));
      ++tried;
    }
  };
  for (const bool llama : {false, true}) check(small_task("h100", 8, llama, 8), all_schedules());
  CHECK(tried > 500);

  TrainingTask tied = small_task("b200", 8, false, 8);
  tied.model.tied = true;
  tied.model.vocabulary = 32'768;  // the table is larger than all else
  tied.model.sequence = 16;
  check(tied, all_schedules());
  TrainingTask experts = small_task("a100", 8, true, 8);
  experts.moe = {.experts = 4, .top_k = 2};
  check(experts, {});
  SearchSpace rings;
  rings.cp = 2;
  check(small_task("classroom", 8, true, 8), rings);
  // Three tp ranks: a node has eight, so some groups are on two nodes.
  TrainingTask across = small_task("ethernet", 12, true, 8);
  across.model.hidden = 384;
  across.model.heads = 6;
  across.model.llama = LlamaConfig{.kv_heads = 3, .mlp_width = 768};
  across.model.sequence = 384;
  SearchSpace threes;
  threes.tp = 3;
  check(across, threes);
  CHECK(tried > 1000);
  CHECK(closest > 0.9);  // some bound is tight
}

TEST_CASE("The search finds the best of all configurations") {
  struct Case {
    const char* cluster;
    int ranks;
    bool llama;
    int batch;
    double memory;
  };
  for (const auto& [cluster, ranks, llama, batch, memory] :
       {Case{"h100", 8, true, 8, 1e18}, Case{"a100", 16, true, 16, 1e18},
        Case{"h100", 16, false, 8, 2e8}, Case{"classroom", 8, true, 16, 1.5e8},
        Case{"ethernet", 8, false, 4, 1e18}, Case{"b200", 8, true, 32, 1e8}}) {
    const TrainingTask task = small_task(cluster, ranks, llama, batch, memory);
    CAPTURE(cluster);
    CAPTURE(memory);
    auto all = all_of(task, {});
    std::erase_if(all,
                  [&](const Evaluated& each) { return each.figures.peak > *task.cluster.memory; });
    const SearchResult found = search(task, {});
    if (all.empty()) {
      CHECK(found.plans.empty());
      continue;
    }
    const auto best =
        std::ranges::min_element(all, {}, [](const Evaluated& each) { return each.figures.step; });
    INFO("best: " << best->configuration.text() << " " << best->figures.step
                  << ", found: " << found.plans.front().configuration.text() << " "
                  << found.plans.front().figures.step << ", left " << found.left);
    // Bounds never cut a better configuration.
    const SearchResult thorough = search(task, {}, all.size());
    CHECK(thorough.left == 0);
    CHECK(thorough.plans.front().figures.step == best->figures.step);
    // The twenty configurations that an estimate selects include one that is as good as the best,
    // or nearly so.
    CHECK(static_cast<double>(found.plans.front().figures.step) <=
          1.02 * static_cast<double>(best->figures.step));
    if (found.left == 0) CHECK(found.plans.front().figures.step == best->figures.step);
  }
}

TEST_CASE("The parts of a step add up to it") {
  const TrainingTask task = small_task("h100", 16, true, 16);
  for (const RankedPlan& plan : search(task, {}, 10).plans) {
    const StepParts& parts = plan.figures.parts;
    Picoseconds sum = parts.compute + parts.optimizer + parts.bubble;
    for (const auto& [axis, time] : parts.exposed) sum += time;
    INFO(plan.configuration.text());
    CHECK(sum == parts.step);
    CHECK(parts.step == plan.figures.step);
  }
}

TEST_CASE("With one replica, ranks of cp sum gradients, which counts for dp") {
  const TrainingTask task = small_task("ethernet", 4, true, 4);
  const Configuration c{.tp = 2, .cp = 2, .microbatch = 4};
  const StepParts parts = step_figures(planned_run(task, c)).parts;
  CHECK(parts.groups.at("dp") == std::set<std::string>{"cp"});
  CHECK(parts.groups.at("cp") == std::set<std::string>{"cp"});
  CHECK(parts.exposed.at("dp") > 0);
}
