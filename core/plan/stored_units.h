#pragma once

#include <vector>

#include "core/plan/gpt_parameters.h"
#include "core/plan/slice.h"
#include "core/plan/stage_layers.h"

namespace lockstep {

/// One parameter in the form in which a rank stores it.
struct StoredParameter {
  int order = 0;  ///< ParameterSpec::order
  Slice slice;
  DType dtype = DType::f32;
  bool frozen = false;
  bool on_two_stages = false;  ///< a tied table whose other use is on another stage
  bool operator==(const StoredParameter&) const = default;
};

/// A group of layers that is gathered, run and freed together: the embedding, a block, or the head.
struct StoredUnit {
  int index = 0;  ///< numbered as in GptConfig::frozen
  std::vector<StoredParameter> parameters{};
  bool operator==(const StoredUnit&) const = default;
};

/// A parameter with the slice of it that a rank holds; neither is owned.
struct SlicedParameter {
  const ParameterSpec& spec;
  const Slice& slice;
};

/// Returns the units that a rank runs on one stage, in order, with the parameters that it holds for
/// that stage. `held` is in ascending order. If the head is tied, its unit ends with the token
/// table.
std::vector<StoredUnit> stored_units(const GptConfig& config, const StageLayers& stage,
                                     const std::vector<SlicedParameter>& held);

}  // namespace lockstep
