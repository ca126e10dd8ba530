#include <initializer_list>
#include <vector>

#include "exercises/02_token_ring/task.h"

namespace lockstep::exercises {

namespace {

struct Steps {
  int right, left;
};
Steps make_steps() {
  return {1, -1};
}
std::vector<int> make_list() {
  return {1, -1};
}

}  // namespace

float pass_token(World& world, float token, float mine) {
  // Constants of all ranks, computed on first use.
  static const auto [right_step, left_step] = make_steps();
  static const std::vector<int>& steps = make_list();
  static const std::initializer_list<int> same = {right_step, left_step};
  const int right = (world.rank() + steps[0]) % world.size();
  const int left = (world.rank() + world.size() + *(same.begin() + 1)) % world.size();
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
