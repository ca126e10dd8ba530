// diagnosis: nobody to send to
#include "exercises/02_token_ring/task.h"

namespace lockstep::exercises {

float pass_token(World& world, float token, float mine) {
  const int rank = world.rank(), N = world.size();
  const int right = (rank + 1) % N, left = (rank + N - 1) % N;
  if (rank == 0) world.send({&token, 1}, right).wait();
  world.receive({&token, 1}, left).wait();
  token += mine;
  if (rank != 0) world.send({&token, 1}, right).wait();
  return token;
}

}  // namespace lockstep::exercises
