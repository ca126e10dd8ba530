#include "exercises/20_ring_attention/task.h"

namespace lockstep::exercises {

void ring_attention(World& world, const Attend& attend, Buffer own, std::span<float> y,
                    std::span<float> lse) {
  // Delete these lines and write yours.
  (void)world, (void)attend, (void)own, (void)y, (void)lse;
  not_written();
}

}  // namespace lockstep::exercises
