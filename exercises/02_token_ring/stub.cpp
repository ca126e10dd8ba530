#include "exercises/02_token_ring/task.h"

namespace lockstep::exercises {

float pass_token(World& world, float token, float mine) {
  // A message of one number: std::span{&token, 1}. Delete these lines and write yours.
  (void)world, (void)token, (void)mine;
  not_written();
}

}  // namespace lockstep::exercises
