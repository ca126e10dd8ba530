// Rank 0 starts its send and its receive at the same time.
#include "exercises/02_token_ring/task.h"

namespace lockstep::exercises {

float pass_token(World& world, float token, float mine) {
  const int N = world.size(), r = world.rank();
  if (N == 1) return token + mine;
  float arrived = 0;
  Work in = world.receive({&arrived, 1}, (r + N - 1) % N);
  if (r > 0) in.wait(), token = arrived + mine;
  Work out = world.send({&token, 1}, (r + 1) % N);
  if (r == 0) in.wait();
  out.wait();
  return arrived + mine;
}

}  // namespace lockstep::exercises
