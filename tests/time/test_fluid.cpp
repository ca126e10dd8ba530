#include "core/time/fluid.h"

#include <doctest/doctest.h>

using namespace lockstep;

namespace {

/// Returns the end of a flow of 100 bytes that shares a resource with others, each of which has
/// `bytes` and follows the previous one without a pause.
Picoseconds end_beside(double bytes) {
  constexpr double slow = 7, unlimited = 1e9;  // bytes per second
  Fluid fluid;
  const Fluid::Path path{fluid.number_of({1, slow})};
  const Fluid::Flow watched = fluid.add(0, 100, unlimited, 0, path);
  fluid.add(0, bytes, unlimited, 0, path);
  for (;;) {
    const Picoseconds now = *fluid.next();
    std::vector<Fluid::Flow> ended;
    fluid.take(ended);
    for (const Fluid::Flow flow : ended)
      if (flow == watched) return now;
    static_cast<void>(fluid.next());  // for an instant, the flow has the resource for itself
    fluid.add(now, bytes, unlimited, 0, path);
  }
}

}  // namespace

TEST_CASE("a flow beside which others follow one another without a pause has one rate") {
  // Of 7 bytes per second, 3 whole bytes are left for the flow, whatever the others' lengths. Each
  // of the short flows ends between two parts of a byte, and must not cost the long flow such a
  // part.
  CHECK(end_beside(1e6) == 33'333'333'333'334);
  CHECK(end_beside(1) == end_beside(1e6));
  CHECK(end_beside(0.7) == end_beside(1e6));
}
