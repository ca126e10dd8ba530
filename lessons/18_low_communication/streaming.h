#pragma once

#include <optional>
#include <set>
#include <vector>

#include "core/comm/group.h"
#include "core/model/flat_buffer.h"
#include "core/plan/flat_layout.h"
#include "lessons/18_low_communication/outer_optimizer.h"

namespace lockstep {

/// The settings of streaming DiLoCo, besides those of the outer optimizer.
struct StreamingOptions {
  int fragments = 2;  ///< P, parts of the model that are exchanged at different times; divides H
  int delay = 4;      ///< τ, inner steps from sending a fragment to using the sum; less than H
  float mix = 0.5F;   ///< α, the weight of the worker's own values when the sum is used
};

/// Returns whether fragment f is sent after `steps` inner steps. The fragments' exchanges are
/// spread evenly over each H steps; the last one is sent at their end.
inline bool is_sent(int f, int steps, int every, int fragments) {
  return steps % every == (f + 1) * (every / fragments) % every;
}

/// Divides the units of a model into contiguous fragments of nearly equally many units, and lays
/// out each fragment as one buffer. A tied table belongs to the fragment of the embedding.
inline std::vector<FlatLayout> fragment_layouts(const std::vector<StoredUnit>& units, int workers,
                                                int fragments) {
  std::vector<std::vector<StoredUnit>> parts(static_cast<std::size_t>(fragments));
  std::set<int> placed;
  for (std::size_t u = 0; u < units.size(); ++u) {
    StoredUnit unit{.index = units[u].index};
    for (const StoredParameter& parameter : units[u].parameters)
      if (placed.insert(parameter.order).second) unit.parameters.push_back(parameter);
    parts[u * parts.size() / units.size()].push_back(std::move(unit));
  }
  std::vector<FlatLayout> layouts;
  for (const auto& part : parts) layouts.emplace_back(part, workers, std::int64_t{1} << 62);
  return layouts;
}

/// Streaming DiLoCo (Douillard 2025): like DiLoCo, but the model is divided into fragments that are
/// exchanged at different times, and the inner steps go on while a fragment is in flight. The sum
/// is used τ steps after the pseudo-gradient was sent. By then the worker's values have moved on,
/// so they are mixed with the outer parameters instead of being replaced.
class StreamingDiLoCo {
 public:
  /// Trains for `steps` inner steps. Model and group must outlive this object.
  StreamingDiLoCo(Gpt& model, Group& workers, const OuterOptions& outer,
                  const StreamingOptions& streaming, int steps)
      : device_(model.device()),
        workers_(workers),
        every_(outer.every),
        streaming_(streaming),
        last_(steps) {
    for (FlatLayout& layout :
         fragment_layouts(model.stored_units(), workers.size(), streaming.fragments)) {
      std::vector<Parameter*> parameters;
      for (const FlatLayout::Slot& slot : layout.buckets().front().slots)
        parameters.push_back(&model.parameter(slot.parameter.order));
      fragments_.push_back(
          {.bucket = layout.buckets().front(), .outer = {device_, std::move(parameters), outer}});
    }
  }

  /// Call this after every inner step. After the last one, completes the exchanges in flight, and
  /// leaves the outer parameters on every worker; inner steps that were not sent are lost.
  void after_step() {
    ++steps_;
    for (Fragment& fragment : fragments_)
      if (fragment.work && (fragment.sent_at + streaming_.delay == steps_)) use_sum(fragment);
    for (std::size_t f = 0; f < fragments_.size(); ++f)
      if (is_sent(static_cast<int>(f), steps_, every_, streaming_.fragments)) {
        send(fragments_[f]);
        if (streaming_.delay == 0) use_sum(fragments_[f]);
      }
    if (steps_ < last_) return;
    for (Fragment& fragment : fragments_) {
      if (fragment.work) use_sum(fragment);
      fragment.outer.adopt();
    }
  }

 private:
  struct Fragment {
    FlatLayout::Bucket bucket;
    OuterOptimizer outer;
    Tensor flat{};  ///< the pseudo-gradients, then their sum; empty unless it is in flight
    std::vector<View> differences{};  ///< in `flat`, by parameter
    Work work{};
    int sent_at = 0;
  };

  void send(Fragment& fragment) {
    fragment.flat = zeros(device_, fragment.bucket.elements, MemoryCategory::communication,
                          DType::f32, "pseudo-gradients");
    fragment.differences.clear();
    for (const FlatLayout::Slot& slot : fragment.bucket.slots)
      fragment.differences.push_back(fragment.flat.view()
                                         .columns(slot.offset, slot.elements())
                                         .reshaped(slot.parameter.slice.local()));
    fragment.outer.subtract(fragment.differences);
    fragment.work = workers_.all_reduce(fragment.flat);
    fragment.sent_at = steps_;
  }

  void use_sum(Fragment& fragment) {
    fragment.work.wait();
    fragment.work = {};
    fragment.outer.step(fragment.differences, workers_.size(), streaming_.mix);
    fragment.flat.reset();
  }

  Device device_;
  Group& workers_;
  int every_;
  StreamingOptions streaming_;
  int last_;
  int steps_ = 0;
  std::vector<Fragment> fragments_;
};

}  // namespace lockstep
