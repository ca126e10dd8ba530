// diagnosis: more than the token travels
#include "exercises/02_token_ring/task.h"

namespace lockstep::exercises {

float pass_token(World& world, float token, float mine) {
  const int right = (world.rank() + 1) % world.size();
  const int left = (world.rank() + world.size() - 1) % world.size();
  std::vector<float> message{token, mine};  // what each rank adds travels, too
  if (world.size() == 1) return token + mine;
  if (world.rank() == 0) world.send(message, right).wait();
  world.receive(message, left).wait();
  message[0] += mine;
  message[1] = mine;
  if (world.rank() != 0) world.send(message, right).wait();
  return message[0];
}

}  // namespace lockstep::exercises
