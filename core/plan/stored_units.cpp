#include "core/plan/stored_units.h"

#include <algorithm>

namespace lockstep {

std::vector<StoredUnit> stored_units(const GptConfig& config, const StageLayers& stage,
                                     const std::vector<SlicedParameter>& held) {
  const int head = config.layers + 1;
  std::vector<StoredUnit> units;
  for (int unit = 0; unit <= head; ++unit)
    if (stage.runs(unit, config)) units.push_back({.index = unit});
  const auto store = [&](int unit, const SlicedParameter& parameter) {
    const auto& [spec, slice] = parameter;
    const bool on_two_stages =
        config.tied && spec.order == token_table_order && !(stage.embedding && stage.head);
    std::ranges::find(units, unit, &StoredUnit::index)
        ->parameters.push_back({spec.order, slice, spec.dtype, spec.frozen, on_two_stages});
  };
  for (const SlicedParameter& each : held)
    if (stage.runs(each.spec.unit(), config)) store(each.spec.unit(), each);
  if (config.tied && stage.head && !held.empty() && held.front().spec.order == token_table_order)
    store(head, held.front());
  return units;
}

}  // namespace lockstep
