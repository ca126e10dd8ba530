#pragma once

#include <csignal>
#include <cstddef>
#include <set>
#include <vector>

#include "core/model/gpt.h"
#include "lessons/20_when_ranks_die/coordinator.h"
#include "lessons/20_when_ranks_die/faults.h"

namespace lockstep {

/// Makes one rank fail where --faults and --flip say so.
class FaultInjection {
 public:
  FaultInjection(Rank& rank, const Faults& faults, Coordinator& coordinator)
      : rank_(rank), faults_(faults), coordinator_(coordinator) {}

  /// Ends the rank if it should fail at this point.
  void strike(int step, DeathPoint point) const {
    if (!faults_.strikes(rank_.id, step, point)) return;
    if (faults_.death() == Death::killed) std::raise(SIGKILL);
    if (faults_.death() == Death::stalled) coordinator_.stall(rank_);
    throw Died{};
  }

  /// Flips one bit of the rank's parameters, in the first attempt at the step.
  void corrupt(int step, const Gpt& model) {
    if (!faults_.flips(rank_.id, step) || rank_.plan.on_meta || flipped_) return;
    flipped_ = true;
    const View values = model.parameters()[model.parameters().size() / 2]->value;
    std::vector<std::byte> bytes(values.bytes());
    rank_.compute.read(values, bytes.data());
    bytes[1] ^= std::byte{0x10};  // in the significand of the first element
    rank_.compute.write(bytes.data(), values);
  }

  /// While it exists, the rank may fail in the backward pass, at a unit of the model that depends
  /// on rank and step.
  class InBackward final : public LayerHooks {
   public:
    InBackward(const FaultInjection& faults, int step, Gpt& model) : faults_(faults), step_(step) {
      if (!faults.faults_.strikes(faults.rank_.id, step, DeathPoint::backward)) return;
      const auto any = static_cast<std::size_t>(5 * faults.rank_.id + 3 * step + 1);
      unit_ = model.units()[any % model.units().size()].index;
      hooks_ = HookScope{model, *this};
    }
    void gradients_ready(const Unit& unit) override {
      if (unit.index == unit_) faults_.strike(step_, DeathPoint::backward);
    }

   private:
    const FaultInjection& faults_;
    int step_;
    int unit_ = -1;
    HookScope hooks_;
  };

 private:
  Rank& rank_;
  const Faults& faults_;
  Coordinator& coordinator_;
  bool flipped_ = false;
};

}  // namespace lockstep
