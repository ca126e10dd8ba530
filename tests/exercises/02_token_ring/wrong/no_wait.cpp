// diagnosis: never waits for its
#include "exercises/02_token_ring/task.h"

namespace lockstep::exercises {

float pass_token(World& world, float token, float mine) {
  const int N = world.size(), rank = world.rank();
  if (N == 1) return token + mine;
  const int right = (rank + 1) % N, left = (rank + N - 1) % N;
  if (rank == 0) world.send({&token, 1}, right).wait();
  world.receive({&token, 1}, left);  // only started
  token += mine;
  if (rank != 0) world.send({&token, 1}, right).wait();
  return token;
}

}  // namespace lockstep::exercises
