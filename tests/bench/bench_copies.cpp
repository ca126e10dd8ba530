// Times the techniques of lessons 02 and 05 on the wall clock, with two ranks in threads. Measures
// the speed of data parallelism relative to independent copies, and the speed of ZeRO-3 relative to
// data parallelism.

#include "tests/bench/copies.h"
#include "tests/support/ranks.h"

namespace {

[[maybe_unused]] const bool registered = [] {
  lockstep::bench::add_copies("threads", 81, lockstep::testing::on_threads);
  return true;
}();

}  // namespace
