#include <chrono>
#include <thread>

#include "exercises/02_token_ring/task.h"

namespace lockstep::exercises {

float pass_token(World& world, float token, float mine) {
  // Simulates a slow machine: each rank takes so long that all ranks together take longer than any
  // one of them may wait for its turn.
  if (world.size() == 8) std::this_thread::sleep_for(std::chrono::milliseconds{500});
  const int right = (world.rank() + 1) % world.size();
  const int left = (world.rank() + world.size() - 1) % world.size();
  const std::span<float> message{&token, 1};
  if (world.size() == 1) return token + mine;
  // Somebody must start. If every rank received first, all of them would wait forever.
  if (world.rank() == 0) world.send(message, right).wait();
  world.receive(message, left).wait();
  token += mine;
  if (world.rank() != 0) world.send(message, right).wait();
  return token;
}

}  // namespace lockstep::exercises
