#include "core/plan/ranks_of_model.h"

#include <algorithm>

namespace lockstep {

bool divides_layers(const Plan& plan) {
  return std::ranges::any_of(plan.parameters(), [&](const ParameterSpec& spec) {
    return std::ranges::any_of(spec.cuts,
                               [&](const Cut& cut) { return plan.mesh.size(cut.axis) > 1; });
  });
}

std::vector<int> ranks_of_model(const Plan& plan, int rank) {
  return divides_layers(plan) ? plan.mesh.group(rank, {Axis::tp, Axis::pp})
                              : plan.mesh.group(rank, Axis::pp);
}

bool is_first_holder(const Plan& plan, const ParameterSpec& spec, int rank) {
  const bool cut =
      std::ranges::any_of(spec.cuts, [](const Cut& each) { return each.axis == Axis::tp; });
  return cut || !divides_layers(plan) || plan.mesh.coordinate(rank, Axis::tp) == 0;
}

}  // namespace lockstep
