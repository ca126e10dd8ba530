#include "core/model/stored_state.h"

#include <unordered_map>

namespace lockstep {

namespace {

std::int64_t element_size(const View& view) {
  return static_cast<std::int64_t>(size_of(view.dtype));
}

}  // namespace

StoredSlices stored_state(const std::vector<Parameter*>& parameters, const AdamW& optimizer) {
  const std::vector<AdamW::Moments> moments = optimizer.moments();
  std::unordered_multimap<int, const AdamW::Moments*> updated;  // by ParameterSpec::order
  for (const AdamW::Moments& each : moments) updated.emplace(each.parameter->order, &each);

  StoredSlices stored;
  for (const Parameter* parameter : parameters) {
    const bool has_gradient = parameter->gradient.elements() > 0;
    stored.add(parameter->name, parameter->slice, StoredKind::parameters,
               static_cast<std::int64_t>(size_of(parameter->dtype)));
    if (has_gradient)
      stored.add(parameter->name, parameter->slice, StoredKind::gradients,
                 element_size(parameter->gradient));
    const auto [first, last] = updated.equal_range(parameter->order);
    for (auto each = first; each != last; ++each) {
      const auto& [part, momentum, variance] = *each->second;
      if (!has_gradient && part->gradient.elements() > 0)
        stored.add(part->name, part->slice, StoredKind::gradients, element_size(part->gradient));
      const std::int64_t master = part->master.elements() > 0 ? element_size(part->master) : 0;
      stored.add(part->name, part->slice, StoredKind::optimizer,
                 element_size(momentum) + element_size(variance) + master);
    }
  }
  return stored;
}

}  // namespace lockstep
