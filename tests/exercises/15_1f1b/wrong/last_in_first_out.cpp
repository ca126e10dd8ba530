// diagnosis: must agree on the order of microbatches
#include "exercises/15_1f1b/task.h"

namespace lockstep::exercises {

std::vector<Action> one_f_one_b(int stage, int stages, int microbatches) {
  (void)stages;
  std::vector<Action> all;
  std::vector<int> flight;
  int f = 0;
  while (f < microbatches || !flight.empty()) {
    if (f < microbatches && static_cast<int>(flight.size()) < stages - stage) {
      all.push_back({Op::forward, stage, f});
      flight.push_back(f++);
    } else {
      all.push_back({Op::backward, stage, flight.back()});
      flight.pop_back();
    }
  }
  return all;
}

}  // namespace lockstep::exercises
