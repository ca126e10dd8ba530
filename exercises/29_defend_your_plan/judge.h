#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "exercises/29_defend_your_plan/possible.h"
#include "lessons/17_choosing/plan/evaluate.h"

namespace lockstep::exercises {

/// By how many percent a step may take longer than the reference's.
constexpr double most_percent_longer = 15;

/// The causes of a step's time that a plan can change.
enum class Cause { compute, bubble, tensor, context, replicas, stages, optimizer };
constexpr std::array all_causes{Cause::compute,  Cause::bubble, Cause::tensor,   Cause::context,
                                Cause::replicas, Cause::stages, Cause::optimizer};
inline const char* name_of(Cause cause) {
  constexpr const char* names[] = {
      "computation",
      "bubble",
      "exposed communication along TP",
      "exposed communication along CP",
      "exposed communication among replicas",
      "exposed messages between stages",
      "optimizer",
  };
  return names[static_cast<std::size_t>(cause)];
}

/// Returns the parts of a step by their causes; they add up to the step.
inline std::map<Cause, Picoseconds> by_cause(const StepParts& parts) {
  std::map<Cause, Picoseconds> sums{{Cause::compute, parts.compute},
                                    {Cause::bubble, parts.bubble},
                                    {Cause::optimizer, parts.optimizer}};
  for (const auto& [axis, time] : parts.exposed)
    sums[axis == "tp"   ? Cause::tensor
         : axis == "pp" ? Cause::stages
         : axis == "cp" ? Cause::context
                        : Cause::replicas] += time;
  return sums;
}

/// The memory and time that a plan needs, and the verdict on it.
struct Judgement {
  Configuration plan;
  StepFigures figures;    ///< without times if the plan does not fit
  StepFigures reference;  ///< of the case's reference; empty if the plan does not fit
  bool fits = false;
  /// What is wrong, and why; empty if the plan is right.
  std::string what, why;

  bool is_right() const { return what.empty(); }
  double percent_longer() const {
    return 100 * (static_cast<double>(figures.step) / static_cast<double>(reference.step) - 1);
  }
};

namespace detail {

inline std::string gigabytes(std::int64_t bytes) {
  return fmt::format("{:.1f} GB", static_cast<double>(bytes) * 1e-9);
}

/// With one decimal, or with as many as it takes to tell the number from the limit.
inline std::string percent(double number) {
  for (int decimals = 1; decimals < 9; ++decimals)
    if (std::abs(number - most_percent_longer) * std::pow(10, decimals) >= 1)
      return fmt::format("{:.{}f} %", number, decimals);
  return fmt::format("{:g} %", number);
}

/// With three significant digits.
inline std::string seconds(Picoseconds time) {
  return fmt::format("{:#.3g} s", static_cast<double>(time) * 1e-12);
}

/// The category that takes the most memory at a rank's peak.
inline MemoryCategory largest(const MemoryUse& memory) {
  return *std::ranges::max_element(all_memory_categories, {},
                                   [&](MemoryCategory category) { return memory.of(category); });
}

inline std::string why_so_much(MemoryCategory category, const Case& each, const Configuration& plan,
                               int stage) {
  switch (category) {
    case MemoryCategory::activations: {
      const PipelineSize size{plan.pp, plan.chunks, plan.microbatches(each.task.batch)};
      const int live = find_schedule(plan.schedule)->live(size, stage);
      return fmt::format(
          "Activations: a stage keeps those of each microbatch from its forward to its backward "
          "pass, here of up to {}. TP and CP divide them. Full recomputation keeps only the input "
          "of each block. More pipeline stages hardly help: a rank has fewer blocks, but more "
          "microbatches in flight.",
          count_of(live, plan.chunks > 1 ? "pass through a chunk" : "microbatch",
                   plan.chunks > 1 ? "passes through a chunk" : "microbatches"));
    }
    case MemoryCategory::communication:
      return "Communication: buffers for what is sent and received, such as the gradients' "
             "buckets, and with ZeRO-3 the gathered parameters. TP and PP make them smaller.";
    default:
      return fmt::format(
          "Parameters, gradients and AdamW's states have 2, 2 and 12 bytes per parameter. TP · PP "
          "= {} divides all of them. ZeRO-1 also divides the 12 among the DP · CP = {}, ZeRO-2 the "
          "gradients, and ZeRO-3 the parameters; the plan has {}.",
          plan.tp * plan.pp, count_of(plan.dp * plan.cp, "replica"),
          plan.zero == 0 ? "no ZeRO" : fmt::format("ZeRO-{}", plan.zero));
  }
}

inline std::string why_so_long(Cause cause, const Case& each, const Configuration& plan,
                               const Configuration& reference) {
  const int node = each.task.cluster.ranks_per_node;
  switch (cause) {
    case Cause::compute: {
      if (plan.recompute == Recompute::full && reference.recompute != Recompute::full)
        return "Full recomputation runs the forward pass of every block twice, which is about a "
               "third more work. The better plan finds room for its activations elsewhere.";
      const double beside = each.task.cluster.shared->kernels_beside_collectives;
      return fmt::format(
          "Several things make kernels take longer: products that TP or short microbatches make "
          "thin, collectives that run beside them ({:.0f} % longer), and a stage with more blocks "
          "than others.",
          100 * (beside - 1));
    }
    case Cause::bubble: {
      const int m = plan.microbatches(each.task.batch);
      std::string text =
          fmt::format("Each replica has {} for {}", count_of(m, "microbatch", "microbatches"),
                      count_of(plan.pp, "rank") + " of the pipeline");
      if (plan.schedule == "1f1b" || plan.schedule == "gpipe")
        text += fmt::format(": (p - 1) / (m + p - 1) = {:.0f} %",
                            100 * (plan.pp - 1.0) / (m + plan.pp - 1.0));
      return text +
             ". Fewer stages, more microbatches per replica (a smaller DP or microbatch), and "
             "schedules with several chunks per rank leave a smaller bubble.";
    }
    case Cause::tensor: {
      const std::string tail =
          "Every block exchanges the activations of all its tokens in the middle of its work, so "
          "little of it overlaps. More TP ranks have less to compute, but as much to exchange.";
      if (plan.tp > node)
        return fmt::format("A node has {} GPUs, so TP {} uses the network between nodes. ", node,
                           plan.tp) +
               tail;
      return tail;
    }
    case Cause::context:
      return fmt::format(
          "Keys and values travel around the ring of CP {}{}. The attention of a block must take "
          "at least as long to hide them.",
          plan.cp, plan.tp * plan.cp > node ? ", which leaves the node" : "");
    case Cause::replicas:
      if (plan.zero == 3)
        return "ZeRO-3 gathers all parameters for each forward and each backward pass, and "
               "reduces gradients after it: three times 2 bytes per parameter for every "
               "microbatch. Larger microbatches hide it, or TP and PP, which divide it.";
      if (plan.zero == 2)
        return "ZeRO-2 reduces the gradients of every microbatch, since no rank keeps them all.";
      return "Replicas sum their gradients once per step, while the last microbatch runs backward. "
             "What that is too short to hide is exposed. More TP and PP ranks hold fewer "
             "gradients, "
             "and ranks of DP that are neighbours in a node exchange them faster.";
    case Cause::stages:
      return "Each chunk sends its output on: with more chunks per rank, and with smaller "
             "microbatches, there are more messages.";
    case Cause::optimizer:
      return "The update reads and writes the states of all parameters that a rank has, unless "
             "ZeRO divides them.";
  }
  return "";
}

}  // namespace detail

/// Returns the memory of the rank that needs most, with one line per category.
inline std::string memory_table(const StepFigures& figures) {
  std::string text;
  for (const MemoryCategory category : all_memory_categories)
    text += fmt::format("  {:<14}{:>10}\n", lockstep::name_of(category),
                        detail::gigabytes(figures.memory.of(category)));
  return text + fmt::format("  {:<14}{:>10}{}", "at once", detail::gigabytes(figures.peak),
                            figures.memory.total() > figures.peak
                                ? "   (the parts have their peaks at different times)"
                                : "");
}

/// Returns how two plans spend their steps, with one line per cause.
inline std::string step_table(const Judgement& judgement) {
  const auto mine = by_cause(judgement.figures.parts);
  const auto better = by_cause(judgement.reference.parts);
  const auto of = [](const auto& parts, Cause cause) {
    const auto found = parts.find(cause);
    return found == parts.end() ? 0 : found->second;
  };
  constexpr Picoseconds shown = 5'000'000'000;  // less would be 0.00 s
  const auto line = [](const char* name, Picoseconds yours, Picoseconds theirs) {
    return fmt::format("  {:<38}{:>8.2f} s{:>11.2f} s\n", name, static_cast<double>(yours) * 1e-12,
                       static_cast<double>(theirs) * 1e-12);
  };
  std::string text = fmt::format("  {:<38}{:>10}{:>13}\n", "", "your plan", "better plan");
  for (const Cause cause : all_causes)
    if (std::max(of(mine, cause), of(better, cause)) >= shown)
      text += line(name_of(cause), of(mine, cause), of(better, cause));
  text += line("step", judgement.figures.step, judgement.reference.step);
  text.pop_back();
  return text;
}

/// Returns the cause by which a plan's step exceeds the reference's the most, and by how much.
inline std::pair<Cause, Picoseconds> bottleneck(const Judgement& judgement) {
  const auto mine = by_cause(judgement.figures.parts);
  auto more = mine;
  for (const auto& [cause, time] : by_cause(judgement.reference.parts)) more[cause] -= time;
  const auto most =
      std::ranges::max_element(more, {}, [](const auto& part) { return part.second; });
  return {most->first, most->second};
}

/// Returns the figures of a case's reference, which are evaluated once.
inline const StepFigures& figures_of_reference(const Case& each) {
  static std::map<std::string, StepFigures> known;
  const auto found = known.find(each.name);
  if (found != known.end()) return found->second;
  return known[each.name] = step_figures(planned_run(each.task, each.reference));
}

/// Judges a plan that is possible(): memory first, then time. Only one thread may call this at a
/// time.
inline Judgement judge(const Case& each, const Configuration& plan) {
  using namespace detail;
  const std::int64_t memory = *each.task.cluster.memory;
  Judgement judgement{
      .plan = plan, .figures = step_figures(planned_run(each.task, plan), memory), .reference = {}};
  const StepFigures& figures = judgement.figures;
  judgement.fits = figures.peak <= memory;
  if (!judgement.fits) {
    const Mesh mesh = planned_run(each.task, plan).plan.mesh;
    const int stage = mesh.coordinate(figures.fullest, Axis::pp);
    judgement.what = fmt::format(
        "this plan does not fit: {}\n\nRank {}{} needs {} of {}, {} too much:\n\n{}", plan.text(),
        figures.fullest,
        plan.pp > 1 ? fmt::format(" (number {} of {} in its pipeline)", stage, plan.pp) : "",
        gigabytes(figures.peak), gigabytes(memory), gigabytes(figures.peak - memory),
        memory_table(figures));
    judgement.why = why_so_much(largest(figures.memory), each, plan, stage);
    return judgement;
  }

  judgement.reference = figures_of_reference(each);
  if (judgement.percent_longer() <= most_percent_longer) return judgement;
  const auto [cause, more] = bottleneck(judgement);
  judgement.what = fmt::format(
      "this plan fits ({} of {}), but is too slow: {}\n\nIts step takes {}, {} longer than the {} "
      "of "
      "a better plan; at most {:g} % are allowed. The better plan: {}\n\n{}",
      gigabytes(figures.peak), gigabytes(memory), plan.text(), seconds(figures.step),
      percent(judgement.percent_longer()), seconds(judgement.reference.step), most_percent_longer,
      each.reference.text(), step_table(judgement));
  judgement.why = fmt::format("The largest difference: {}, {} more. {}", name_of(cause),
                              seconds(more), why_so_long(cause, each, plan, each.reference));
  return judgement;
}

}  // namespace lockstep::exercises
