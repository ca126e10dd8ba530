// diagnosis: changes the numbers of send()
#include "exercises/02_token_ring/task.h"

namespace lockstep::exercises {

float pass_token(World& world, float token, float mine) {
  const int N = world.size(), r = world.rank();
  if (N == 1) return token + mine;
  Work out;
  if (r == 0) out = world.send(std::span{&token, 1}, 1);
  float arrived = 0;
  world.receive(std::span{&arrived, 1}, (r + N - 1) % N).wait();
  token = arrived + mine;
  if (r == 0)
    out.wait();
  else
    world.send(std::span{&token, 1}, (r + 1) % N).wait();
  return token;
}

}  // namespace lockstep::exercises
