// diagnosis: rank 1 of 2: the answer uses an element that is not there
#include "exercises/02_token_ring/task.h"

namespace lockstep::exercises {

float pass_token(World& world, float token, float mine) {
  const int N = world.size(), r = world.rank();
  if (N == 1) return token + mine;
  const std::vector<int> right{1};
  const int to = right.at(static_cast<std::size_t>(r));
  if (r == 0) world.send(std::span{&token, 1}, to).wait();
  world.receive(std::span{&token, 1}, (r + N - 1) % N).wait();
  token += mine;
  if (r != 0) world.send(std::span{&token, 1}, to).wait();
  return token;
}

}  // namespace lockstep::exercises
