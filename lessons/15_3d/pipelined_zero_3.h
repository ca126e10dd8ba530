#pragma once

#include "lessons/05_zero_3/zero_3.h"

namespace lockstep {

/// ZeRO-3 on a stage whose next pass may be another microbatch's, so that nothing is prefetched
/// beyond the end of a pass. (backward_follows says which stage needs only Zero3.)
class PipelinedZero3 : public Zero3 {
 public:
  using Zero3::Zero3;

  void before_forward(const Unit& unit) override {
    const auto& uses = parameters().uses();
    if (unit.index == uses.front().units.front()) parameters().skip_to(0, uses.size() / 2);
    Zero3::before_forward(unit);
  }
  void before_backward(const Unit& unit) override {
    const auto& uses = parameters().uses();
    const std::size_t first = uses.size() / 2;  // use of the backward pass
    if (unit.index == uses[first].units.front()) parameters().skip_to(first, uses.size());
    Zero3::before_backward(unit);
  }
};

}  // namespace lockstep
