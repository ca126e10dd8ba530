// This check may take 300 seconds.
#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

#include "exercises/29_defend_your_plan/judge.h"
#include "exercises/29_defend_your_plan/toy.h"
#include "exercises/frame/check.h"
#include "exercises/frame/staging.h"
#include "lessons/17_choosing/plan/configuration.h"

namespace lockstep::exercises {

const char* const learned =
    "Every technique has a price: bytes on some link, a bubble, memory, or a pass that runs twice. "
    "A plan pays where its model, its batch and its cluster are cheap, so no plan is right "
    "everywhere.";

namespace {

using Answer = TrainingPlan (*)();
constexpr Answer answers[] = {llama_70b_on_64, llama_70b_on_256, llama_405b_on_16384,
                              llama_70b_long_sequences, gpt_22b_on_slow_links};

/// Trains the plan's layout on a toy model. Returns its mesh.
std::string train_toy_of(Check& check, const Case& each, const Configuration& plan) {
  const Configuration toy = on_toy_mesh(plan);
  const auto seed = static_cast<std::uint64_t>(check.number_from(1, 1'000'000));
  const PlannedRun run = toy_run(each, toy, seed);
  const std::string what = fmt::format("{}, at toy scale: {}", each.name, toy.text());
  const Outcome outcome = check.run(
      what, run.plan.mesh,
      [&](World& world) {
        const Rank& rank = Frame::state(world).rank;
        const OutOfTurn all_at_once{Frame::state(world).turn};  // training waits for other ranks
        const Place place = run.plan.place(rank.id);
        AxisGroups groups{rank.endpoint, place, Frame::group(world)};
        return train_toy({run.plan, place, rank.endpoint, groups}, run);
      },
      [](const Failure&) { return std::string{}; });
  if (const std::string wrong = difference_from_one_device(run, outcome.results); !wrong.empty())
    throw Wrong{what + ": " + wrong, "That is not the fault of your plan. Please report it."};
  return text_of_mesh(toy);
}

/// The text that is shown for a right plan.
std::string summary(const Case& each, const Judgement& judgement) {
  const double longer = judgement.percent_longer();
  return fmt::format("{}: {}\n  a step takes {}{}; {} of {}\n", each.name, judgement.plan.text(),
                     detail::seconds(judgement.figures.step),
                     judgement.plan == each.reference
                         ? ", the one that others are compared with"
                         : fmt::format(", {:.1f} % {} than with {}", std::abs(longer),
                                       longer < 0 ? "less" : "longer", each.reference.text()),
                     detail::gigabytes(judgement.figures.peak),
                     detail::gigabytes(*each.task.cluster.memory));
}

}  // namespace

void check(Check& check) {
  std::string right;
  for (std::size_t i = 0; i < training_cases().size(); ++i) {
    const Case& each = training_cases()[i];
    Configuration plan;
    try {
      plan = possible(each, answers[i]());
    } catch (const NotWritten&) {
      if (i == 0) throw;
      throw Wrong{fmt::format("{}: not written yet. What is right:\n\n{}", each.name, right), ""};
    }
    // Even with --launch mpi, only one process judges the plan, because judging takes seconds.
    check.run(
        each.name, 1,
        [&](World&) {
          const Judgement judgement = judge(each, plan);
          if (!judgement.is_right()) throw Wrong{judgement.what, judgement.why};
          right += summary(each, judgement);
          return std::vector<float>{};
        },
        [](const Failure&) { return std::string{}; });
    right += fmt::format("  at toy scale ({}), the losses are those of one device\n",
                         train_toy_of(check, each, plan));
  }
  right.pop_back();
  check.show("Your plans, by the planner's figures:", Picture{right});
}

}  // namespace lockstep::exercises
