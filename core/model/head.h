#pragma once

#include "core/model/builder.h"

namespace lockstep {

/// Final norm and output head without bias: (b, s, h) -> logits (b, s, V). With `tied`, the
/// head reads that token table and adds its gradient to `tied_gradient` (V, h); finish_gradients
/// adds the result to the table's own gradient. Without `tied`, the head owns a Parameter
/// (head_spec).
class Head : public Chain {
 public:
  Head(const LayerSite& site, const ModelBuilder& builder, Parameter* tied = nullptr,
       View tied_gradient = {});
};

}  // namespace lockstep
