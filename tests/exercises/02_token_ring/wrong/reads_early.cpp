// diagnosis: had not yet left there
#include "exercises/02_token_ring/task.h"

namespace lockstep::exercises {

float pass_token(World& world, float token, float mine) {
  const int N = world.size(), r = world.rank();
  if (N == 1) return token + mine;
  if (r == 0) world.send(std::span{&token, 1}, 1).wait();
  float arrived = 0;
  Work in = world.receive(std::span{&arrived, 1}, (r + N - 1) % N);
  float sum = arrived + mine;
  in.wait();
  if (r != 0) world.send(std::span{&sum, 1}, (r + 1) % N).wait();
  return sum;
}

}  // namespace lockstep::exercises
