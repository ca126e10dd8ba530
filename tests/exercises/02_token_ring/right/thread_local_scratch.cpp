#include "exercises/02_token_ring/task.h"

// Each thread has its own scratch memory, which is not shared.

namespace lockstep::exercises {

float pass_token(World& world, float token, float mine) {
  thread_local std::vector<float> message;
  message.assign(1, token);
  const int N = world.size();
  if (N == 1) return token + mine;
  if (world.rank() == 0) world.send(message, 1).wait();
  world.receive(message, (world.rank() + N - 1) % N).wait();
  message[0] += mine;
  if (world.rank() != 0) world.send(message, (world.rank() + 1) % N).wait();
  return message[0];
}

}  // namespace lockstep::exercises
