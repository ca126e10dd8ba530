#include "core/pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace lockstep {

char letter(Op op) {
  return letter_of(category(op));
}

Category category(Op op) {
  switch (op) {
    case Op::forward:
      return Category::forward;
    case Op::backward:
      return Category::backward;
    case Op::backward_input:
      return Category::backward_input;
    case Op::backward_weight:
      return Category::backward_weight;
  }
  return Category::forward;  // unreachable: the switch covers every Op
}

std::string to_string(const Action& action) {
  return fmt::format("{}{}{}", action.stage, letter(action.op), action.microbatch);
}

std::size_t Schedule::action_count() const {
  std::size_t count = 0;
  for (const auto& row : actions) count += row.size();
  return count;
}

std::vector<int> linear_placement(int ranks) {
  return loop_placement(ranks, ranks);
}

std::vector<int> loop_placement(int ranks, int stages) {
  std::vector<int> rank_of_stage;
  for (int stage = 0; stage < stages; ++stage) rank_of_stage.push_back(stage % ranks);
  return rank_of_stage;
}

std::vector<int> v_placement(int ranks) {
  std::vector<int> rank_of_stage;
  for (int stage = 0; stage < 2 * ranks; ++stage)
    rank_of_stage.push_back(std::min(stage, 2 * ranks - 1 - stage));
  return rank_of_stage;
}

Schedule empty_schedule(std::string name, std::vector<int> rank_of_stage, int microbatches) {
  const int stages = static_cast<int>(rank_of_stage.size());
  if (stages < 1 || microbatches < 1)
    throw ScheduleError(
        fmt::format("{}: {} stages and {} microbatches; a schedule needs at least 1 of each", name,
                    stages, microbatches));
  const int ranks = 1 + *std::ranges::max_element(rank_of_stage);
  return {.name = std::move(name),
          .ranks = ranks,
          .stages = stages,
          .microbatches = microbatches,
          .rank_of_stage = std::move(rank_of_stage),
          .actions = std::vector<std::vector<Action>>(static_cast<std::size_t>(ranks))};
}

Schedule one_stage_per_rank(std::string name, int stages, int microbatches) {
  return empty_schedule(std::move(name), linear_placement(std::max(stages, 0)), microbatches);
}

int peak_live_microbatches(const Schedule& schedule, int rank) {
  int live = 0;
  int peak = 0;
  // In a valid schedule W follows I, so only W frees the microbatch.
  for (const Action& action : schedule.actions.at(static_cast<std::size_t>(rank))) {
    if (action.op == Op::forward) peak = std::max(peak, ++live);
    if (action.op == Op::backward || action.op == Op::backward_weight) --live;
  }
  return peak;
}

}  // namespace lockstep
