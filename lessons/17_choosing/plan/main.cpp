// ./lockstep plan: which layout should this model, this cluster and this batch have?

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <future>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/program.h"
#include "core/model/checkpoint/save_lock.h"
#include "lessons/17_choosing/plan/explain.h"
#include "lessons/17_choosing/plan/impossible.h"
#include "lessons/17_choosing/plan/ranking.h"
#include "lessons/17_choosing/plan/report.h"
#include "lessons/17_choosing/plan/rerun.h"
#include "lessons/17_choosing/plan/walk.h"
#include "lessons/17_choosing/plan/words.h"

using namespace lockstep;

namespace {

/// Shows the progress of a long search on a terminal.
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
      "{}: {} parameters, {} blocks of width {}, {} tokens per sequence, {}{}\n"
      "{} GPUs of {}, {} to a node; {} sequences per step, {} tokens\n",
      one_line(request.model), count_text(total_parameters(task)), task.model.layers,
      task.model.hidden, task.model.sequence, name_of(task.model.dtype),
      task.moe.experts > 0 ? fmt::format(", {} experts per layer", task.moe.experts) : "",
      task.ranks, task.cluster.name, per_node, task.batch,
      count_text(std::int64_t{1} * task.batch * task.model.sequence));
  if (!request.defaults.empty())
    text += fmt::format("assumed, because not given: {}\n", fmt::join(request.defaults, ", "));
  return text;
}

std::string what_was_searched(const SearchResult& found, std::size_t shown) {
  std::string text = fmt::format(
      "Of each of {} meshes, the fastest plan that was replayed. Lower bounds cut {} of {}\n"
      "configurations because of their memory, and {} that are no faster than plan 1. Replays\n"
      "found {} plans that fit, and {} that are too large.",
      shown, found.cut_by_memory, found.considered, found.cut_by_time, found.plans.size(),
      found.too_large.size());
  if (found.left > 0)
    text += fmt::format(" By their bounds, {} more might be faster: raise --replays.", found.left);
  return text + '\n';
}

/// Compares the best plan with the one that the rules of thumb lead to, completed as well as
/// possible.
std::string rules_compared(const SearchResult& by_rules, const RankedPlan& best) {
  if (by_rules.plans.empty()) return "The rules of thumb lead to a layout in which nothing fits.\n";
  const RankedPlan& theirs = by_rules.plans.front();
  if (theirs.configuration == best.configuration)
    return "The rules of thumb lead to the same layout.\n";
  const double ratio =
      static_cast<double>(theirs.figures.step) / static_cast<double>(best.figures.step);
  return fmt::format("The rules of thumb lead to {}: {}, {:.1f} % slower than plan 1.\n",
                     theirs.configuration.text(), time_text(theirs.figures.step),
                     100 * (ratio - 1));
}

/// Searches, and adds the plans to which the rules of thumb lead, if nothing is fixed.
SearchResult search_all(const PlanRequest& request, const SearchSpace& space,
                        SearchResult& by_rules, Progress& progress) {
  SearchSpace rules = rules_of_thumb(request.task);
  rules.schedules = space.schedules;
  by_rules = search(request.task, rules, 3, progress);
  SearchResult found = search(request.task, space, request.replays, progress);
  SearchSpace open;
  open.schedules = space.schedules;
  if (space == open) add(found, by_rules.plans);
  progress.clear();
  return found;
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
  SearchSpace open;
  open.schedules = request.space.schedules;
  SearchResult by_rules;
  SearchResult all = search_all(request, open, by_rules, progress);
  if (plan.figures.step > 0) add(all, {plan});
  if (all.plans.empty()) return;
  const RankedPlan& best = all.plans.front();
  if (plan.figures.step == 0) {
    fmt::print("\nThis fits, and takes {}: {}\n", time_text(best.figures.step),
               best.configuration.text());
  } else if (best.figures.step == plan.figures.step) {
    fmt::print("\nNo plan that was replayed is faster{}.\n",
               all.left > 0 ? fmt::format("; {} more might be, by their bounds", all.left) : "");
  } else {
    fmt::print(
        "\nThe fastest plan found takes {} ({:+.1f} %): {}\n", time_text(best.figures.step),
        100 * (static_cast<double>(best.figures.step) / static_cast<double>(plan.figures.step) - 1),
        best.configuration.text());
  }
}

/// Prints the plans. Returns the plans printed, and the lesson's results for them.
std::pair<std::vector<RankedPlan>, std::vector<MetaRun>> print_plans(const PlanRequest& request,
                                                                     const SearchResult& found,
                                                                     const SearchResult& by_rules) {
  const TrainingTask& task = request.task;
  std::vector<RankedPlan> plans;
  for (const std::size_t i : best_of_each_mesh(found.plans))
    if (plans.size() < request.top) plans.push_back(found.plans[i]);
  fmt::print("\n{}{}\n", what_was_searched(found, plans.size()), ranking_table(task, plans));
  // Replays take long, so only the next plans are explained by them.
  constexpr std::size_t replayed = 5;
  std::vector<std::future<std::string>> sentences;
  for (std::size_t i = 1; i < plans.size(); ++i)
    sentences.push_back(std::async(std::launch::async, [&task, &plans, i] {
      return why_slower(task, plans, i, i < replayed);
    }));
  for (auto& sentence : sentences) fmt::print("{}\n", sentence.get());
  fmt::print("\nPlan 1 needs {}\n", memory_text(task, plans.front()));
  fmt::print("{}", rules_compared(by_rules, plans.front()));
  std::vector<MetaRun> reruns;
  if (request.rerun) {
    fmt::print("\nRun again as lesson 17, all ranks of it, on the meta device:\n");
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const StepFigures& figures = plans[i].figures;
      reruns.push_back(run_on_meta(request, plans[i].configuration));
      const bool same_step = seconds(figures.step) == reruns[i].step_seconds,
                 same_memory = figures.peak == reruns[i].peak;
      const bool differs = !same_memory || (!same_step && figures.exact);
      fmt::print("{:>3}. step {:.6f} ms planned, {:.6f} ms run; memory {} B planned, {} B run{}\n",
                 i + 1, 1e3 * seconds(figures.step), 1e3 * reruns[i].step_seconds, figures.peak,
                 reruns[i].peak,
                 differs     ? " (DIFFERS)"
                 : same_step ? ""
                             : " (planned as if all replicas owned the same under ZeRO)");
      if (differs) throw RunError("a run differs from its plan");
    }
  }
  fmt::print(
      "\nTo run the fastest yourself, every rank of it:\n  ./lockstep lesson 17 {} --cluster {} "
      "--parity off\n",
      lesson_flags(request, plans.front().configuration), request.cluster);
  fmt::print("Its techniques at toy scale, compared with one device:\n  ./lockstep lesson 17 {}\n",
             toy_flags(task, plans.front().configuration));
  return {std::move(plans), std::move(reruns)};
}

int plan(int argc, char** argv) {
  const auto request = parse_request(argc, argv);
  if (!request) return 0;
  const auto lock = lock_report(request->report);
  fmt::print("{}\n{}", heading(*request), decision_tree(request->task));
  std::fflush(stdout);
  Progress progress;
  if (request->explain) {
    const SearchResult found = search(request->task, request->space, request->replays, progress);
    progress.clear();
    if (found.considered == 0)
      throw UsageError(why_impossible(request->task, request->space, found));
    fmt::print("\n");
    explain(*request, found, progress);
    return 0;
  }
  SearchResult by_rules;
  const SearchResult found = search_all(*request, request->space, by_rules, progress);
  if (found.plans.empty()) throw UsageError(why_impossible(request->task, request->space, found));
  const auto [plans, reruns] = print_plans(*request, found, by_rules);
  if (!request->report.empty()) write_report(*request, found, plans, reruns);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program([&] { return plan(argc, argv); });
}
