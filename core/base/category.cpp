#include "core/base/category.h"

#include <cstddef>

namespace lockstep {

const char* name_of(Category category) {
  constexpr const char* names[category_count] = {
      "forward",       "backward", "backward_input", "backward_weight", "recompute", "optimizer",
      "communication", "wait",     "step",           "kernel",          "copy",      "host"};
  return names[static_cast<std::size_t>(category)];
}

char letter_of(Category category) {
  constexpr char letters[] = "FBIWR";
  return category <= Category::recompute ? letters[static_cast<std::size_t>(category)] : '\0';
}

bool computes(Category category) {
  switch (category) {
    case Category::forward:
    case Category::backward:
    case Category::backward_input:
    case Category::backward_weight:
    case Category::recompute:
    case Category::optimizer:
    case Category::kernel:
      return true;
    case Category::communication:
    case Category::wait:
    case Category::step:
    case Category::copy:
    case Category::host:
      return false;
  }
  return false;
}

}  // namespace lockstep
