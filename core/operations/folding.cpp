#include "core/operations/folding.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace lockstep {

Folding::Folding(std::vector<Axis> axes) : axes_(std::move(axes)) {
  for (const auto& [stride, size, step] : axes_)
    if (step < 1 || size % step != 0)
      throw std::invalid_argument("the step of a folding does not divide its axis");
  std::erase_if(axes_, [](const Axis& axis) { return axis.step == axis.size; });
}

int Folding::times() const {
  int product = 1;
  for (const auto& [stride, size, step] : axes_) product *= size / step;
  return product;
}

int Folding::seen_from(int rank, int other) const {
  for (const auto& [stride, size, step] : axes_) {
    const int coordinate = rank / stride % size, its = other / stride % size;
    const int shift = coordinate - coordinate % step;
    other += ((its - shift + size) % size - its) * stride;
  }
  return other;
}

}  // namespace lockstep
