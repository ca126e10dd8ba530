#include "core/pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

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
  std::vector<int> rank_of_stage(static_cast<std::size_t>(ranks));
  std::iota(rank_of_stage.begin(), rank_of_stage.end(), 0);
  return rank_of_stage;
}

Schedule one_stage_per_rank(std::string name, int stages, int microbatches) {
  if (stages < 1 || microbatches < 1)
    throw ScheduleError(
        fmt::format("{}: {} stages and {} microbatches; a schedule needs at least 1 of each", name,
                    stages, microbatches));
  Schedule schedule{std::move(name), stages, stages, microbatches, {}, {}};
  schedule.rank_of_stage = linear_placement(stages);
  schedule.actions.resize(static_cast<std::size_t>(stages));
  return schedule;
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
