#include "exercises/18_moe/task.h"

namespace lockstep::exercises {

void mixture_of_experts(World& world, const Experts& experts, std::span<const Choice> choices,
                        std::span<float> tokens) {
  // Delete these lines and write yours.
  (void)world, (void)experts, (void)choices, (void)tokens;
  not_written();
}

}  // namespace lockstep::exercises
