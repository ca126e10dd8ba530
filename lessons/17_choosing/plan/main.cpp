// ./lockstep plan: which layout should this model, this cluster and this batch have?

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/error.h"
#include "lessons/17_choosing/plan/explain.h"
#include "lessons/17_choosing/plan/impossible.h"
#include "lessons/17_choosing/plan/ranking.h"
#include "lessons/17_choosing/plan/report.h"
#include "lessons/17_choosing/plan/rerun.h"
#include "lessons/17_choosing/plan/walk.h"
#include "lessons/17_choosing/plan/words.h"

using namespace lockstep;

namespace {

/// Shows how far a long search is, on a terminal.
class Progress {
 public:
  void operator()(const std::string& text) {
    if (!shows_) return;
    fmt::print(stderr, "\r\033[K{}", text);
    std::fflush(stderr);
  }
  void clear() { (*this)(""); }

 private:
  bool shows_ = isatty(STDERR_FILENO) != 0;
};

std::string heading(const PlanRequest& request) {
  const TrainingTask& task = request.task;
  const int per_node = std::min(task.cluster.ranks_per_node, task.ranks);
  std::string text = fmt::format(
      "{}: {:.1f}B parameters, {} blocks of width {}, {} tokens per sequence, {}{}\n"
      "{} GPUs of {}, {} to a node; {} sequences per step, {:.2f}M tokens\n",
      request.model, static_cast<double>(task.model.parameter_count()) / 1e9, task.model.layers,
      task.model.hidden, task.model.sequence, name_of(task.model.dtype),
      task.moe.experts > 0 ? fmt::format(", {} experts per layer", task.moe.experts) : "",
      task.ranks, task.cluster.name, per_node, task.batch,
      static_cast<double>(task.batch) * task.model.sequence / 1e6);
  if (!request.defaults.empty())
    text += fmt::format("assumed, because no flag says otherwise: {}\n",
                        fmt::join(request.defaults, ", "));
  return text;
}

std::string what_was_searched(const SearchResult& found, std::size_t shown) {
  return fmt::format(
      "The fastest plan of each of {} meshes, by the step of a replay. Of {} configurations, {} "
      "need "
      "more memory and {} take longer than plan 1, by lower bounds; {} were replayed, and {} "
      "proved "
      "too large{}\n",
      shown, found.considered, found.cut_by_memory, found.cut_by_time, found.plans.size(),
      found.too_large.size(),
      found.left == 0
          ? "."
          : fmt::format("; {} might be faster, by their bounds, and were not replayed (--replays).",
                        found.left));
}

/// The plan that the rules of thumb lead to, completed as well as possible.
std::string rules_compared(const PlanRequest& request, const SearchResult& found) {
  const SearchSpace rules = rules_of_thumb(request.task);
  const auto same = [&](const Configuration& c) {
    return c.tp == rules.tp && c.pp == rules.pp && c.cp == rules.cp;
  };
  const SearchResult by_rules = search(request.task, rules, 5);
  if (by_rules.plans.empty()) return "The rules of thumb lead to a layout in which nothing fits.\n";
  const RankedPlan &theirs = by_rules.plans.front(), &best = found.plans.front();
  if (same(best.configuration)) return "The rules of thumb lead to the same layout.\n";
  const double ratio =
      static_cast<double>(theirs.figures.step) / static_cast<double>(best.figures.step);
  return fmt::format("The rules of thumb lead to {}: {}, {:.1f} % slower than 1.\n",
                     theirs.configuration.text(), time_text(theirs.figures.step),
                     100 * (ratio - 1));
}

void explain(const PlanRequest& request, SearchResult found, Progress& progress) {
  RankedPlan plan;
  if (!found.plans.empty())
    plan = std::move(found.plans.front());
  else if (!found.too_large.empty())
    plan = std::move(*std::ranges::min_element(
        found.too_large, {}, [](const RankedPlan& each) { return each.figures.peak; }));
  else
    plan = {*found.smallest, step_figures(planned_run(request.task, *found.smallest), 0), {}};
  fmt::print("{}", explained(request.task, plan));
  const SearchResult all = search(request.task, {}, request.replays, progress);
  progress.clear();
  if (all.plans.empty()) return;
  const RankedPlan& best = all.plans.front();
  if (best.configuration == plan.configuration) {
    fmt::print("\nNo configuration of those searched is faster.\n");
  } else if (plan.figures.step > 0) {
    fmt::print(
        "\nThe fastest plan found takes {} ({:+.1f} %): {}\n", time_text(best.figures.step),
        100 * (static_cast<double>(best.figures.step) / static_cast<double>(plan.figures.step) - 1),
        best.configuration.text());
  } else {
    fmt::print("\nThis fits, and takes {}: {}\n", time_text(best.figures.step),
               best.configuration.text());
  }
}

/// Prints the plans. Returns those printed, and what the lesson has shown of them.
std::pair<std::vector<RankedPlan>, std::vector<MetaRun>> print_plans(const PlanRequest& request,
                                                                     const SearchResult& found) {
  const TrainingTask& task = request.task;
  std::vector<RankedPlan> plans;
  for (const std::size_t i : best_of_each_mesh(found.plans))
    if (plans.size() < request.top) plans.push_back(found.plans[i]);
  fmt::print("\n{}{}\n", what_was_searched(found, plans.size()), ranking_table(task, plans));
  for (std::size_t i = 1; i < plans.size(); ++i) fmt::print("{}\n", why_slower(task, plans, i));
  fmt::print("\n1. needs {}\n", memory_text(task, plans.front()));
  fmt::print("{}", rules_compared(request, found));
  std::vector<MetaRun> reruns;
  if (request.rerun) {
    fmt::print("\nRun again as lesson 17, all ranks of it, on the meta device:\n");
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const StepFigures& figures = plans[i].figures;
      reruns.push_back(run_on_meta(request, plans[i].configuration));
      const double planned = seconds(figures.step);
      fmt::print("{:>3}. step {:.6f} ms planned, {:.6f} ms run{}; memory {} planned, {} run{}\n",
                 i + 1, 1e3 * planned, 1e3 * reruns[i].step_seconds,
                 planned == reruns[i].step_seconds ? "" : " (DIFFERS)", figures.peak,
                 reruns[i].peak, figures.peak == reruns[i].peak ? "" : " (DIFFERS)");
    }
  }
  fmt::print(
      "\nTo run the fastest yourself, every rank of it:\n  ./lockstep lesson 17 {} --cluster {} "
      "--parity off\n",
      lesson_flags(request, plans.front().configuration), request.cluster);
  fmt::print("Its techniques at toy scale, compared with one device:\n  ./lockstep lesson 17 {}\n",
             toy_flags(plans.front().configuration));
  return {std::move(plans), std::move(reruns)};
}

int plan(int argc, char** argv) {
  const auto request = parse_request(argc, argv);
  if (!request) return 0;
  fmt::print("{}\n{}", heading(*request), decision_tree(request->task));
  std::fflush(stdout);
  Progress progress;
  const SearchResult found = search(request->task, request->space, request->replays, progress);
  progress.clear();
  if (request->explain && found.considered > 0) {
    fmt::print("\n");
    explain(*request, found, progress);
    return 0;
  }
  if (found.plans.empty()) throw UsageError(why_impossible(request->task, request->space, found));
  const auto [plans, reruns] = print_plans(*request, found);
  if (!request->report.empty()) write_report(*request, found, plans, reruns);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return plan(argc, argv);
  } catch (const UsageError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
