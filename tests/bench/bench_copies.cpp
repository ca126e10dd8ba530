// Lessons 02 and 05 on the wall clock with two ranks in threads: the speed of data parallelism
// relative to independent copies, and of ZeRO-3 relative to data parallelism.

#include "tests/bench/copies.h"
#include "tests/support/ranks.h"

namespace {

[[maybe_unused]] const bool registered = [] {
  lockstep::bench::add_copies("threads", 81, lockstep::testing::on_threads);
  return true;
}();

}  // namespace
