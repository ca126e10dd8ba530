#pragma once

#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/comm/group.h"
#include "core/model/builder.h"

namespace lockstep {

/// Counts, for one layer, the choices of a whole batch by expert: those of all microbatches on all
/// data-parallel ranks. Requires that a step's forward passes all come before its first backward
/// pass (forwards_first in expert_training.h).
class BatchLoad {
 public:
  BatchLoad(const LayerSite& site, int experts)
      : device_(site.device),
        ranks_(site.group(Axis::dp)),
        counts_(static_cast<std::size_t>(experts)) {}

  /// Call this in each forward pass, with a microbatch's choices by expert. Starts an all-reduce of
  /// 4 E bytes, which overlaps with the rest of the forward pass.
  void add(const std::vector<std::int64_t>& chosen) {
    if (left_ > 0) throw std::logic_error{"BatchLoad: a forward pass after a backward pass"};
    ++forwards_;
    if (ranks_ == nullptr) return count(chosen);
    const std::vector<float> numbers(chosen.begin(), chosen.end());  // exact up to 2^24 choices
    Tensor sum{
        device_.memory, {static_cast<std::int64_t>(numbers.size())}, MemoryCategory::communication};
    device_.compute.write(numbers.data(), sum);
    Work work = ranks_->all_reduce(sum);
    sums_.push_back({std::move(sum), std::move(work)});
  }

  /// Call this once in each backward pass. Returns the batch's choices by expert; on the meta
  /// device, where nothing arrives, equal numbers.
  std::vector<std::int64_t> take() {
    if (left_ == 0) left_ = std::exchange(forwards_, 0);
    for (Sum& sum : sums_) {
      sum.work.wait();
      std::vector<float> numbers(counts_.size(), 1);
      if (device_.memory.device() != DeviceKind::meta)
        device_.compute.read(sum.counts, numbers.data());
      count(numbers);
    }
    sums_.clear();
    if (--left_ > 0) return counts_;
    return std::exchange(counts_, std::vector<std::int64_t>(counts_.size()));
  }

 private:
  struct Sum {
    Tensor counts;
    Work work;
  };
  template <class Number>
  void count(const std::vector<Number>& choices) {
    for (std::size_t expert = 0; expert < counts_.size(); ++expert)
      counts_[expert] += static_cast<std::int64_t>(choices[expert]);
  }

  Device device_;
  Group* ranks_;                      ///< null if one rank has the whole batch
  std::vector<Sum> sums_;             ///< one per microbatch, until the first backward pass
  std::vector<std::int64_t> counts_;  ///< by expert
  int forwards_ = 0;                  ///< of this step, until its first backward pass
  int left_ = 0;                      ///< backward passes of this step, from its first one on
};

}  // namespace lockstep
