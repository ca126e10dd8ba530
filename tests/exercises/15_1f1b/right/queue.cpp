// The microbatches in flight are a queue.
#include "exercises/15_1f1b/task.h"

namespace lockstep::exercises {

std::vector<Action> one_f_one_b(int stage, int stages, int microbatches) {
  (void)stages;
  std::vector<Action> all;
  std::vector<int> flight;
  for (int i = 0; i < microbatches; ++i) {
    if (static_cast<int>(flight.size()) == stages - stage) {
      all.push_back({Op::backward, stage, flight.front()});
      flight.erase(flight.begin());
    }
    all.push_back({Op::forward, stage, i});
    flight.push_back(i);
  }
  for (const int i : flight) all.push_back({Op::backward, stage, i});
  return all;
}

}  // namespace lockstep::exercises
