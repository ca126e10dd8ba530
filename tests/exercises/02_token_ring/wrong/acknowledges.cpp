// diagnosis: has sent 2 messages, and should send one
#include "exercises/02_token_ring/task.h"

namespace lockstep::exercises {

float pass_token(World& world, float token, float mine) {
  const int right = (world.rank() + 1) % world.size();
  const int left = (world.rank() + world.size() - 1) % world.size();
  const std::span<float> message{&token, 1};
  if (world.size() == 1) return token + mine;
  float heard = 0;
  const auto send = [&] {
    world.send(message, right).wait();
    world.receive({&heard, 1}, right).wait();
  };
  if (world.rank() == 0) send();
  world.receive(message, left).wait();
  world.send({&mine, 1}, left).wait();
  token += mine;
  if (world.rank() != 0) send();
  return token;
}

}  // namespace lockstep::exercises
