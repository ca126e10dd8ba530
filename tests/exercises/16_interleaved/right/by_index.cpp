// Each pass from its number.
#include "exercises/16_interleaved/task.h"

namespace lockstep::exercises {

std::vector<Action> interleaved(int rank, int ranks, int chunks, int microbatches) {
  const int all = chunks * microbatches,
            warm_up = std::min(all, (chunks - 1) * ranks + 2 * (ranks - 1 - rank));
  const auto pass = [&](int k, bool forward) {
    const int group = k / (ranks * chunks), within = k % (ranks * chunks);
    const int chunk = forward ? within / ranks : chunks - 1 - within / ranks;
    return Action{forward ? Op::forward : Op::backward, chunk * ranks + rank,
                  group * ranks + within % ranks};
  };
  std::vector<Action> actions;
  int f = 0, b = 0;
  while (f < warm_up) actions.push_back(pass(f++, true));
  while (f < all) actions.push_back(pass(f++, true)), actions.push_back(pass(b++, false));
  while (b < all) actions.push_back(pass(b++, false));
  return actions;
}

}  // namespace lockstep::exercises
