#include "exercises/02_token_ring/task.h"

// Uses the ranks along an axis, and a constant that is computed once.

namespace lockstep::exercises {

float pass_token(World& world, float token, float mine) {
  static const std::vector<int> steps{1, -1};
  World ring = world.along(Axis::dp);
  const int N = ring.size();
  if (N == 1) return token + mine;
  const int right = (ring.rank() + steps[0]) % N, left = (ring.rank() + steps[1] + N) % N;
  std::vector<float> message{token};
  if (ring.rank() == 0) ring.send(message, right).wait();
  ring.receive(message, left).wait();
  message[0] += mine;
  if (ring.rank() > 0) ring.send(message, right).wait();
  return message.front();
}

}  // namespace lockstep::exercises
